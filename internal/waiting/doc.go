// Package waiting owns requests that wait: what a renter wants to rent as soon as there
// is room, up to a price and until a moment. Nothing is charged or set aside while they
// wait.
//
// Every so often the fleet is pictured as the explanation of placement pictures it, and
// the rules of placement/queue say which requests begin and where. Each is then quoted at
// the price of that moment and accepted by the code that accepts any other lease, in the
// transaction that ends its wait: however often and wherever this is cut off or done twice,
// there is one lease or none.
//
// Nobody gets ahead of another account by what they say of themselves. A priority only
// lets requests of one account trade their ages, and when a request expires counts for
// nothing; between accounts fair share decides, of what operators' quotas allow. An
// estimate lets a request go ahead of one that waits for more room, and is also when
// its lease stops. Leases of the spot market are not stopped from here: a lease on demand
// claims their GPUs, as always.
//
// It asks fleet for the picture and lease for the rest, and never reads their tables.
package waiting
