// Package intake bounds what strangers can make a server hold: how many
// connections are open, in all and from one address, and how slowly the body of a
// request may come. It knows nothing of what is served.
package intake
