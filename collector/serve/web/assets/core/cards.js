// Cards that features add to views. The script of a feature runs before `main.js`, and adds its cards here.

const cards = [];

/** Add a card to the view of this name: `make(scope, filter)` returns its element. */
export function addCard(view, make) {
  cards.push([view, make]);
}

/** The cards of a view; a filter narrows them to one entry, as in a request to the API. */
export function featureCards(view, scope, filter = {}) {
  return cards.filter(([each]) => each === view).map(([, make]) => make(scope, filter));
}
