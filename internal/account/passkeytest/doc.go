// Package passkeytest makes passkeys for tests.
package passkeytest
