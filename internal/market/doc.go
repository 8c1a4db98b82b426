// Package market is the live spot market: it keeps bids and price history, and
// turns what the auction decides into leases that start, are given notice, are
// interrupted and resume.
//
// All of one market (a GPU model in a zone, real or simulated) is decided in
// rounds. A round is one transaction that holds the market's row: it reads what
// leases and GPUs have become, clears the auction, and does all that was decided,
// leases, holds, rates and prices included. So a crash at any line leaves the
// market as it was before the round, replicas take turns, and the next round
// finds whatever was missed. Rounds are held when something changed and when the
// auction says that time alone changes something.
//
// The rules of who gets what at which price are in pricing/auction. What a lease
// does is lease's, and money is billing's: this package tells them within its own
// transactions. It imports lease, fleet and account for their types, and the pure
// core.
package market
