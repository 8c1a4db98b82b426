// Package stripe is Stripe as a payment provider: a Checkout Session for each
// payment, refunds of its Payment Intent, signed webhooks, and the list of events for
// what webhooks did not say.
//
// It uses Stripe's own client, which signs nothing of its own and checks the
// signatures of webhooks. Each session carries the payment's identifier as its
// client_reference_id and each refund its own in its metadata; both are idempotency
// keys as well. Sources: docs.stripe.com/api, docs.stripe.com/webhooks.
//
// It imports payment, money and ident.
package stripe
