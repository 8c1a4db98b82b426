// Package welfare says how good the outcome of an auction is: what bidders would pay at
// most less what hosts want at least, beside the most that any outcome could have. It
// knows nothing of how the auction is cleared; tests and benchmarks compare by it.
//
// Amounts are prices of a GPU-hour times GPUs.
package welfare
