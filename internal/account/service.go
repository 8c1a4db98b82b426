package account

// Service is replaced by the account slice.
type Service struct{}
