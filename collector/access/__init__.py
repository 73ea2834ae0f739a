"""Who may ask what of the collector: tokens, client certificates, and the guard that looks at both.

In come the settings, the file of tokens and a request; out goes a `Caller`, which says what it may do and for
which node it may speak, or a refusal. `scopes` names what can be allowed; `tokens` is the file's content and
the look-up of a secret in it; `tokenfile` reads, writes and follows the file; `guard` stands before every
route; `opening` decides at the start whether the collector may listen where it is told to.

Nothing here keeps or logs a secret, or says which one was shown.
"""
