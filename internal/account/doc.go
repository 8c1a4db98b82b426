// Package account owns accounts, their users and roles, sessions, API keys, SSH
// keys, quotas and the audit log. It decides who a request is from and what that
// person may do; it never decides about leases, hosts or money. It imports the
// store and nothing of the other services.
package account
