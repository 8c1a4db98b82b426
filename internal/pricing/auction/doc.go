// Package auction is the spot market: which bids get which GPUs, and at what
// price. It is pure: a market and a time go in, decisions and prices come out.
// It keeps nothing, does nothing, and asks no clock; whoever calls it stores
// bids, hosts and decisions, carries decisions out, and calls again when
// something changes or Result.Next comes. It imports money and nothing else of
// suanli.
//
// # The rules
//
// A market is one GPU model in one zone. Each bundle size in it is a good of its
// own, with one price per GPU-hour that all who run it pay; all sizes compete for
// the same GPUs. A bid is a limit: what is paid is the price.
//
// Leases of other plans come first. What they leave goes to those bids that are
// together worth the most above the floors of the hosts that they would use. In
// a market of one size that is simply the best bids, the older of equal ones
// first. With several sizes, a bundle wins if it is worth more than everything
// that it displaces: eight GPUs at 1.00 beat a single one at 1.10.
//
// The price of a good is one tick above the best bid that does not run and could
// have had the same GPUs; never below the floor of a host that is used for it,
// and never above the limit of anybody who runs. A larger bundle that waits
// counts with its price per GPU, smaller ones with what they would pay together.
// That somebody is within its minimum run, and cannot be outbid yet, makes no
// difference to the price: what waits sets it, up to the limit of who runs.
//
// A host with a floor above what the market needs stays empty, even beside a bid
// that would pay it: one price for all means that all would pay it. For the same
// reason a bid under the price waits although some host's floor is lower.
//
// Who runs stays where it is. It is outbid only by bids that are a tick better,
// not before its minimum run is over, and nobody is moved to another host
// because that is cheaper. Who is outbid gets a notice and runs on until it
// ends, at a price that is never above its limit; if it wins meanwhile, because
// it raised its bid or others left, the notice is withdrawn. After the notice it
// is interrupted, cools down, and from then on is a bid like any other: it
// starts again by itself when it wins. A bid that gets another host instead
// needs not cool down, and one that had to make room for a lease on demand
// neither.
//
// A bid may change at any time. Lowered under the price, it is outbid, and pays
// for its notice what it paid before: otherwise whoever leaves could pull down
// the price of all. A host's new floor holds for those who start after it; who
// runs under it stays until somebody pays it.
//
// # How it is solved
//
// A market of a few hosts is solved exactly (see exact.go); one of more hosts,
// too, but for that nobody who runs is moved to another host (see packing.go);
// and one that is larger still by rank, where a bundle is small beside the whole
// (see greedy.go). Which of them is decided by counts and never by prices. In either, raising a bid never
// loses a place, equal inputs in any order give equal results, and no bid waits
// for GPUs that are idle and that it could pay at the good's price.
package auction
