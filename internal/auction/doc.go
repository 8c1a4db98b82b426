// Package auction is the spot market: who gets which GPUs, and at what price.
package auction
