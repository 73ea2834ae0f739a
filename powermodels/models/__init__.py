"""Power models: load in, watts per term out.

A `Model` is a few numbers, evaluated in plain Python. The prior (`prior`, from published machines) exists
for every host. Models that are fitted to a meter are stored as JSON (`stored`): linear, curve and table
(`regression`), and `adaptive`. `powermodels.fit` fits them. A new kind is a module here, a line in
`stored.Stored` and one in `fit.fitting._KINDS`.
"""
