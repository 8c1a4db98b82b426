package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/notify"
)

const (
	tagNews     = "Notifications"
	tagWebhooks = "Webhooks"
)

// WebhookPath is embedded in the input of operations on one webhook.
type WebhookPath struct {
	WebhookID string `path:"webhook_id" maxLength:"64"`
}

// DeliveryPath is embedded in the input of operations on one delivery.
type DeliveryPath struct {
	WebhookPath
	DeliveryID string `path:"delivery_id" maxLength:"64"`
}

func (a *API) registerNews() {
	if a.News == nil {
		return
	}
	register(a, operation{
		ID: "listNotifications", Method: http.MethodGet, Path: "/v1/notifications", Summary: "List notifications, newest first", Tag: tagNews, Action: account.ReadAccount,
		Description: "Those that you may read: what is about money needs `billing:read`, what is about leases `lease:read`.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		Paging
		Kind   string `query:"kind" maxLength:"64" doc:"Only of one kind" example:"lease.interrupted"`
		Unread bool   `query:"unread" doc:"Only what nobody of the account has read"`
	}) (*body[page[api.Notification]], error) {
		list, err := a.News.List(ctx, p, notify.Filter{Kind: in.Kind, Unread: in.Unread}, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(n notify.Notification) string { return n.ID }, notificationJSON), nil
	})
	register(a, operation{ID: "countUnreadNotifications", Method: http.MethodGet, Path: "/v1/notifications/unread", Summary: "Count what nobody of the account has read", Tag: tagNews, Action: account.ReadAccount},
		func(ctx context.Context, p account.Principal, _ *none) (*body[api.NotificationCount], error) {
			n, err := a.News.Unread(ctx, p)
			return &body[api.NotificationCount]{api.NotificationCount{Count: n}}, err
		})
	register(a, operation{ID: "readNotification", Method: http.MethodPost, Path: "/v1/notifications/{notification_id}/read", Summary: "Mark a notification as read, for the whole account", Tag: tagNews, Action: account.WriteSelf},
		func(ctx context.Context, p account.Principal, in *struct {
			NotificationID string `path:"notification_id" maxLength:"64"`
		}) (*body[api.Notification], error) {
			n, err := a.News.MarkRead(ctx, p, in.NotificationID)
			if err != nil {
				return nil, err
			}
			return &body[api.Notification]{notificationJSON(n)}, nil
		})
	register(a, operation{ID: "readNotifications", Method: http.MethodPost, Path: "/v1/notifications/read", Summary: "Mark notifications up to one as read, for the whole account", Tag: tagNews, Action: account.WriteSelf},
		func(ctx context.Context, p account.Principal, in *body[api.MarkNotificationsRead]) (*body[api.NotificationCount], error) {
			n, err := a.News.MarkAllRead(ctx, p, in.Body.Until)
			return &body[api.NotificationCount]{api.NotificationCount{Count: n}}, err
		})
	registerEvents(a, operation{
		ID: "followNotifications", Method: http.MethodGet, Path: "/v1/notification-events", Summary: "Follow notifications as they come", Tag: tagNews, Action: account.ReadAccount,
		Description: "Server-Sent Events named `notification`; each has its identifier. With `after`, or the `Last-Event-ID` that browsers send by themselves, what was missed comes first, up to 1000.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		After string `query:"after" maxLength:"64" doc:"Identifier of a notification"`
		Last  string `header:"Last-Event-ID" maxLength:"64"`
	}, emit func(event) error) error {
		after := in.Last
		if after == "" {
			after = in.After
		}
		if after != "" && ident.Check(ident.Notification, after) != nil {
			after = "" // it names none, and what came after it is not known
		}
		return a.News.Follow(ctx, p, after, func() error { return emit(event{}) }, func(n notify.Notification) error {
			return emit(event{ID: n.ID, Name: "notification", Data: notificationJSON(n)})
		})
	})
	a.registerWebhooks()
}

func (a *API) registerWebhooks() {
	register(a, operation{
		ID: "createWebhook", Method: http.MethodPost, Path: "/v1/webhooks", Summary: "Add a webhook", Tag: tagWebhooks, Action: account.WriteAccount, Status: http.StatusCreated, Idempotent: true,
		Description: "It is called with CloudEvents, signed by the Standard Webhooks scheme. The secret is in this answer and can never be read again.",
	}, func(ctx context.Context, p account.Principal, in *body[api.WebhookCreate]) (*body[api.WebhookWithSecret], error) {
		w, secret, err := a.News.CreateWebhook(ctx, p, in.Body.URL, in.Body.Description, in.Body.Kinds)
		return secretBody(w, secret, err)
	})
	register(a, operation{ID: "listWebhooks", Method: http.MethodGet, Path: "/v1/webhooks", Summary: "List your webhooks", Tag: tagWebhooks, Action: account.WriteAccount},
		func(ctx context.Context, p account.Principal, _ *none) (*body[page[api.Webhook]], error) {
			list, err := a.News.Webhooks(ctx, p)
			if err != nil {
				return nil, err
			}
			return whole(list, webhookJSON), nil
		})
	register(a, operation{ID: "getWebhook", Method: http.MethodGet, Path: "/v1/webhooks/{webhook_id}", Summary: "Read a webhook", Tag: tagWebhooks, Action: account.WriteAccount},
		func(ctx context.Context, p account.Principal, in *WebhookPath) (*body[api.Webhook], error) {
			return webhookBody(a.News.Webhook(ctx, p, in.WebhookID))
		})
	register(a, operation{ID: "updateWebhook", Method: http.MethodPatch, Path: "/v1/webhooks/{webhook_id}", Summary: "Change a webhook, or switch it on or off", Tag: tagWebhooks, Action: account.WriteAccount},
		func(ctx context.Context, p account.Principal, in *struct {
			WebhookPath
			Body api.WebhookChange
		}) (*body[api.Webhook], error) {
			return webhookBody(a.News.ChangeWebhook(ctx, p, in.WebhookID, notify.WebhookChange(in.Body)))
		})
	register(a, operation{
		ID: "rotateWebhookSecret", Method: http.MethodPost, Path: "/v1/webhooks/{webhook_id}/secret", Summary: "Replace a webhook's secret", Tag: tagWebhooks, Action: account.WriteAccount, Idempotent: true,
		Description: "For a day deliveries are signed with both.",
	}, func(ctx context.Context, p account.Principal, in *WebhookPath) (*body[api.WebhookWithSecret], error) {
		w, secret, err := a.News.RotateSecret(ctx, p, in.WebhookID)
		return secretBody(w, secret, err)
	})
	register(a, operation{ID: "deleteWebhook", Method: http.MethodDelete, Path: "/v1/webhooks/{webhook_id}", Summary: "Remove a webhook and the log of its deliveries", Tag: tagWebhooks, Action: account.WriteAccount},
		func(ctx context.Context, p account.Principal, in *WebhookPath) (*none, error) {
			return nil, a.News.DeleteWebhook(ctx, p, in.WebhookID)
		})
	register(a, operation{ID: "testWebhook", Method: http.MethodPost, Path: "/v1/webhooks/{webhook_id}/test", Summary: "Send a webhook something that says that nothing happened", Tag: tagWebhooks, Action: account.WriteAccount, Status: http.StatusAccepted},
		func(ctx context.Context, p account.Principal, in *WebhookPath) (*body[api.WebhookDelivery], error) {
			return deliveryBody(a.News.TestWebhook(ctx, p, in.WebhookID))
		})
	register(a, operation{ID: "listWebhookDeliveries", Method: http.MethodGet, Path: "/v1/webhooks/{webhook_id}/deliveries", Summary: "List a webhook's deliveries, newest first", Tag: tagWebhooks, Action: account.WriteAccount},
		func(ctx context.Context, p account.Principal, in *struct {
			WebhookPath
			Paging
			State string `query:"state" enum:"pending,delivered,failed" doc:"Only in one state"`
		}) (*body[page[api.WebhookDelivery]], error) {
			list, err := a.News.Deliveries(ctx, p, in.WebhookID, in.State, in.Cursor, in.Limit+1)
			if err != nil {
				return nil, err
			}
			return paged(list, in.Limit, func(d notify.Delivery) string { return d.ID }, deliveryJSON), nil
		})
	register(a, operation{ID: "getWebhookDelivery", Method: http.MethodGet, Path: "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}", Summary: "Read a delivery with the log of its attempts", Tag: tagWebhooks, Action: account.WriteAccount},
		func(ctx context.Context, p account.Principal, in *DeliveryPath) (*body[api.WebhookDelivery], error) {
			return deliveryBody(a.News.Delivery(ctx, p, in.WebhookID, in.DeliveryID))
		})
	register(a, operation{
		ID: "redeliverWebhook", Method: http.MethodPost, Path: "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", Summary: "Send what a delivery was about once more", Tag: tagWebhooks,
		Action: account.WriteAccount, Status: http.StatusAccepted, Description: "Under the same `webhook-id`, so that a receiver that has it already knows.",
	}, func(ctx context.Context, p account.Principal, in *DeliveryPath) (*body[api.WebhookDelivery], error) {
		return deliveryBody(a.News.Redeliver(ctx, p, in.WebhookID, in.DeliveryID))
	})
}

func notificationJSON(n notify.Notification) api.Notification {
	out := api.Notification{ID: n.ID, Kind: n.Kind, Subject: n.Subject, At: n.At, ReadAt: moment(n.ReadAt), Data: api.NewsData{}}
	// What Announce has written is an object.
	if err := json.Unmarshal(n.Data, &out.Data); err != nil {
		out.Data = api.NewsData{}
	}
	return out
}

func webhookJSON(w notify.Webhook) api.Webhook {
	out := api.Webhook{
		ID: w.ID, URL: w.URL, Description: w.Description, Kinds: slices.Clone(w.Kinds), Enabled: w.Enabled, DisabledWhy: w.DisabledWhy,
		FailingSince: moment(w.FailingSince), PreviousUntil: moment(w.PreviousUntil), CreatedAt: w.CreatedAt, ChangedAt: w.ChangedAt,
	}
	if out.Kinds == nil {
		out.Kinds = []string{}
	}
	return out
}

func webhookBody(w notify.Webhook, err error) (*body[api.Webhook], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Webhook]{webhookJSON(w)}, nil
}

func secretBody(w notify.Webhook, secret string, err error) (*body[api.WebhookWithSecret], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.WebhookWithSecret]{api.WebhookWithSecret{Webhook: webhookJSON(w), Secret: secret}}, nil
}

func deliveryJSON(d notify.Delivery) api.WebhookDelivery {
	out := api.WebhookDelivery{
		ID: d.ID, WebhookID: d.WebhookID, NotificationID: d.NotificationID, Kind: d.Kind, State: d.State, Attempts: d.Attempts,
		FirstAt: d.FirstAt, NextAt: moment(d.NextAt), FinishedAt: moment(d.FinishedAt),
	}
	for _, t := range d.Log {
		out.Log = append(out.Log, api.WebhookAttempt{Number: t.Number, At: t.At, Status: t.Status, LatencyMilli: int64(t.Latency / time.Millisecond), Error: t.Error, Excerpt: t.Excerpt})
	}
	return out
}

func deliveryBody(d notify.Delivery, err error) (*body[api.WebhookDelivery], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.WebhookDelivery]{deliveryJSON(d)}, nil
}
