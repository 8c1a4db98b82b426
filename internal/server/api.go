package server

import (
	"log/slog"

	"github.com/danielgtaylor/huma/v2"

	"suanli.dev/internal/account"
)

// Services is what the API is an edge of.
type Services struct {
	Accounts *account.Service
}

// API is the HTTP API.
type API struct {
	Services
	huma       huma.API
	log        *slog.Logger
	operations []operation
}
