// Package payment brings money from outside into accounts' wallets and back: by
// payment providers behind an interface (Provider), of which Stripe is one, and by
// bank transfers that an operator enters.
//
// What it holds to:
//
//   - A payment is written down before its provider hears of it, and carries its
//     identifier there, so that nothing that a provider says comes too early.
//   - What is heard is an Observation, whether by a callback, by asking, or from the
//     provider's list of events, and is taken under the payment's lock: the same
//     twice, late, or in another order changes nothing.
//   - A wallet is credited once for what its provider calls the payment, with
//     exactly what was asked for. Anything else is put aside for an operator.
//   - A refund is posted first and sent then, under its own identifier as the
//     provider's idempotency key; Run sends what a crash left unsent.
//   - A dispute takes the money out of the wallet when the provider took it from the
//     cloud, also where that leaves a debt, and puts it back if it is won.
//
// It never sees a card or a bank account's number: those stay at the provider.
//
// It imports account (for who asks), billing (which posts), ledger, pricing for the
// minor unit, and the store.
package payment
