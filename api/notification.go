package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Notification is one piece of news of an account. What Data holds is by Kind; the
// documentation lists the kinds with their fields.
type Notification struct {
	ID      string     `json:"id"`
	Kind    string     `json:"kind" example:"lease.interrupted"`
	Subject string     `json:"subject" doc:"What it is about, such as a lease or an invoice"`
	At      time.Time  `json:"at" doc:"When it happened"`
	Data    NewsData   `json:"data" doc:"The kind's payload"`
	ReadAt  *time.Time `json:"read_at,omitempty" doc:"Absent: nobody of the account has read it"`
}

// NewsData is the payload of a notification: a JSON object whose fields are the
// kind's.
type NewsData = map[string]any

// NotificationCount is how many notifications there are of a sort.
type NotificationCount struct {
	Count int64 `json:"count"`
}

// MarkNotificationsRead says up to which notification all were read.
type MarkNotificationsRead struct {
	Until string `json:"until" maxLength:"64" doc:"The newest notification that was read; older ones count as read, too"`
}

// Webhook is an endpoint that is called with an account's news.
type Webhook struct {
	ID            string     `json:"id"`
	URL           string     `json:"url"`
	Description   string     `json:"description,omitempty"`
	Kinds         []string   `json:"kinds" doc:"That it is called with; empty: all"`
	Enabled       bool       `json:"enabled"`
	DisabledWhy   string     `json:"disabled_why,omitempty" doc:"commanded, gave_up after a day of failures, or gone as it answered 410"`
	FailingSince  *time.Time `json:"failing_since,omitempty" doc:"Absent: the last attempt was taken"`
	PreviousUntil *time.Time `json:"previous_secret_until,omitempty" doc:"Until when deliveries are signed with the secret before, too"`
	CreatedAt     time.Time  `json:"created_at"`
	ChangedAt     time.Time  `json:"changed_at"`
}

// WebhookWithSecret is a webhook with its secret, which is shown once.
type WebhookWithSecret struct {
	Webhook
	Secret string `json:"secret" doc:"Of the Standard Webhooks scheme: whsec_ and base64. It can never be read again"`
}

// WebhookCreate is what a webhook is made of.
type WebhookCreate struct {
	URL         string   `json:"url" maxLength:"2000" doc:"https, at a public address" example:"https://example.com/hooks"`
	Description string   `json:"description,omitempty" maxLength:"200"`
	Kinds       []string `json:"kinds,omitempty" maxItems:"100" doc:"Absent: all that you may read"`
}

// WebhookChange changes a webhook; what is absent stays.
type WebhookChange struct {
	URL         *string   `json:"url,omitempty" maxLength:"2000"`
	Description *string   `json:"description,omitempty" maxLength:"200"`
	Kinds       *[]string `json:"kinds,omitempty" maxItems:"100" doc:"Empty: all that you may read"`
	Enabled     *bool     `json:"enabled,omitempty" doc:"Switched off, it misses what happens; switched on again, it is not sent that"`
}

// WebhookDelivery is one notification on its way to one webhook.
type WebhookDelivery struct {
	ID             string           `json:"id"`
	WebhookID      string           `json:"webhook_id"`
	NotificationID string           `json:"notification_id" doc:"Sent as webhook-id"`
	Kind           string           `json:"kind"`
	State          string           `json:"state" enum:"pending,delivered,failed"`
	Attempts       int64            `json:"attempts"`
	FirstAt        time.Time        `json:"first_at"`
	NextAt         *time.Time       `json:"next_at,omitempty" doc:"When it is tried next"`
	FinishedAt     *time.Time       `json:"finished_at,omitempty"`
	Log            []WebhookAttempt `json:"log,omitempty" doc:"Of a delivery that is read by itself: its attempts, in order"`
}

// WebhookAttempt is one try of a delivery.
type WebhookAttempt struct {
	Number       int64     `json:"number"`
	At           time.Time `json:"at"`
	Status       int       `json:"status,omitempty" doc:"Absent: no answer came"`
	LatencyMilli int64     `json:"latency_ms"`
	Error        string    `json:"error,omitempty" doc:"refused, redirected, timeout, name_not_found, address_inside, tls_failed, connection_failed or secret_unreadable; absent: it was taken"`
	Excerpt      string    `json:"excerpt,omitempty" doc:"The beginning of the answer"`
}

// NotificationFilter narrows notifications.
type NotificationFilter struct {
	Kind   string // empty: all
	Unread bool
}

// Notifications yields the account's notifications, newest first.
func (c *Client) Notifications(ctx context.Context, f NotificationFilter) iter.Seq2[Notification, error] {
	v := url.Values{}
	if f.Kind != "" {
		v.Set("kind", f.Kind)
	}
	if f.Unread {
		v.Set("unread", "true")
	}
	return all[Notification](ctx, c, "/v1/notifications", v)
}

// UnreadNotifications counts what nobody of the account has read.
func (c *Client) UnreadNotifications(ctx context.Context) (int64, error) {
	n, err := do[NotificationCount](ctx, c, http.MethodGet, "/v1/notifications/unread", nil)
	if err != nil {
		return 0, err
	}
	return n.Count, nil
}

// ReadNotification marks one as read.
func (c *Client) ReadNotification(ctx context.Context, id string) (*Notification, error) {
	return do[Notification](ctx, c, http.MethodPost, "/v1/notifications/"+url.PathEscape(id)+"/read", nil)
}

// ReadNotifications marks all up to one as read and returns how many that were.
func (c *Client) ReadNotifications(ctx context.Context, until string) (int64, error) {
	n, err := do[NotificationCount](ctx, c, http.MethodPost, "/v1/notifications/read", MarkNotificationsRead{until})
	if err != nil {
		return 0, err
	}
	return n.Count, nil
}

// FollowNotifications yields notifications as they come, first those after the one
// with the identifier after; empty: from now on.
func (c *Client) FollowNotifications(ctx context.Context, after string) iter.Seq2[Notification, error] {
	v := url.Values{}
	if after != "" {
		v.Set("after", after)
	}
	return func(yield func(Notification, error) bool) {
		for e, err := range c.Watch(ctx, "/v1/notification-events", v) {
			var n Notification
			if err == nil {
				if err = json.Unmarshal(e.Data, &n); err != nil {
					err = fmt.Errorf("follow notifications: %w", err)
				}
			}
			if !yield(n, err) || err != nil {
				return
			}
		}
	}
}

func webhookPath(id string) string { return "/v1/webhooks/" + url.PathEscape(id) }

// CreateWebhook adds a webhook; its secret is in the answer and never again.
func (c *Client) CreateWebhook(ctx context.Context, in WebhookCreate) (*WebhookWithSecret, error) {
	return do[WebhookWithSecret](ctx, c, http.MethodPost, "/v1/webhooks", in)
}

// Webhooks lists the account's webhooks.
func (c *Client) Webhooks(ctx context.Context) ([]Webhook, error) {
	p, err := do[Page[Webhook]](ctx, c, http.MethodGet, "/v1/webhooks", nil)
	if err != nil {
		return nil, err
	}
	return p.Items, nil
}

// Webhook reads one.
func (c *Client) Webhook(ctx context.Context, id string) (*Webhook, error) {
	return do[Webhook](ctx, c, http.MethodGet, webhookPath(id), nil)
}

// ChangeWebhook changes what of in is not nil.
func (c *Client) ChangeWebhook(ctx context.Context, id string, in WebhookChange) (*Webhook, error) {
	return do[Webhook](ctx, c, http.MethodPatch, webhookPath(id), in)
}

// RotateWebhookSecret replaces a webhook's secret. The one before signs for a day
// as well.
func (c *Client) RotateWebhookSecret(ctx context.Context, id string) (*WebhookWithSecret, error) {
	return do[WebhookWithSecret](ctx, c, http.MethodPost, webhookPath(id)+"/secret", nil)
}

// DeleteWebhook removes a webhook and the log of its deliveries.
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, webhookPath(id), nil, nil, nil)
}

// TestWebhook sends a webhook something that says that nothing happened.
func (c *Client) TestWebhook(ctx context.Context, id string) (*WebhookDelivery, error) {
	return do[WebhookDelivery](ctx, c, http.MethodPost, webhookPath(id)+"/test", nil)
}

// WebhookDeliveries yields a webhook's deliveries, newest first; state may be empty.
func (c *Client) WebhookDeliveries(ctx context.Context, id, state string) iter.Seq2[WebhookDelivery, error] {
	v := url.Values{}
	if state != "" {
		v.Set("state", state)
	}
	return all[WebhookDelivery](ctx, c, webhookPath(id)+"/deliveries", v)
}

// WebhookDelivery reads one delivery with its attempts.
func (c *Client) WebhookDelivery(ctx context.Context, webhookID, id string) (*WebhookDelivery, error) {
	return do[WebhookDelivery](ctx, c, http.MethodGet, webhookPath(webhookID)+"/deliveries/"+url.PathEscape(id), nil)
}

// Redeliver sends what a delivery was about once more, under the same webhook-id.
func (c *Client) Redeliver(ctx context.Context, webhookID, id string) (*WebhookDelivery, error) {
	return do[WebhookDelivery](ctx, c, http.MethodPost, webhookPath(webhookID)+"/deliveries/"+url.PathEscape(id)+"/redeliver", nil)
}
