package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Volume is a disk of an account's that outlives leases.
type Volume struct {
	ID               string             `json:"id"`
	Name             string             `json:"name"`
	State            string             `json:"state" enum:"available,creating,deleting,deleted,lost"`
	Code             string             `json:"code,omitempty" doc:"Why it is in this state, for programs"`
	Message          string             `json:"message,omitempty" doc:"Why it is in this state, for people"`
	SizeGiB          int64              `json:"size_gib"`
	HostID           string             `json:"host_id" doc:"Leases that have it run on this host"`
	Region           string             `json:"region"`
	Zone             string             `json:"zone"`
	Simulated        bool               `json:"simulated"`
	Currency         string             `json:"currency"`
	PricePerGiBMonth Rate               `json:"price_per_gib_month" doc:"Frozen when it was made"`
	PerMonth         Amount             `json:"per_month" doc:"Of the whole volume in the month in which it was made, in use or not"`
	SnapshotID       string             `json:"snapshot_id,omitempty" doc:"That it is made of"`
	Replaces         string             `json:"replaces,omitempty" doc:"The volume whose place it takes when it is made"`
	MovingTo         string             `json:"moving_to,omitempty" doc:"The volume that is to take its place, once that is made"`
	Backup           *VolumeBackup      `json:"backup,omitempty" doc:"When it is backed up; absent: it is not"`
	Attachments      []VolumeAttachment `json:"attachments" nullable:"false" doc:"The leases that have it; while there is one it cannot be removed"`
	CreatedAt        time.Time          `json:"created_at"`
	ReadyAt          *time.Time         `json:"ready_at,omitempty" doc:"Since when it is charged for; absent: its host has not made it"`
	EndedAt          *time.Time         `json:"ended_at,omitempty"`
}

// VolumeAttachment is a lease that has a volume.
type VolumeAttachment struct {
	LeaseID    string    `json:"lease_id"`
	Path       string    `json:"path" doc:"Where it is inside of the instance"`
	ReadOnly   bool      `json:"read_only"`
	AttachedAt time.Time `json:"attached_at"`
}

// VolumeCreate asks for a volume: on the host of an offer, or of a lease of yours.
type VolumeCreate struct {
	Name              string `json:"name,omitempty" maxLength:"63" doc:"Left out: one is made up"`
	SizeGiB           int64  `json:"size_gib,omitempty" minimum:"0" maximum:"65536" doc:"Needed, but of a snapshot: at least the size of its volume, or that if it is left out"`
	Snapshot          string `json:"snapshot,omitempty" maxLength:"64" doc:"Identifier or name of a snapshot that it is made of, on a host of its region; left out: it is empty"`
	HostID            string `json:"host_id" maxLength:"64" doc:"Of an offer or a lease: where it is kept"`
	AgreedPerGiBMonth *Rate  `json:"agreed_per_gib_month,omitempty" doc:"The most that a GiB may cost a month; left out: whatever the host asks"`
}

// VolumeAttach gives a volume to a lease that is stopped.
type VolumeAttach struct {
	LeaseID  string `json:"lease_id,omitempty" maxLength:"64" doc:"Identifier or name; needed"`
	Path     string `json:"path,omitempty" maxLength:"255" doc:"Absolute, inside of the instance; needed" example:"/data"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// VolumeDetach takes a volume from a lease that is stopped.
type VolumeDetach struct {
	LeaseID string `json:"lease_id,omitempty" maxLength:"64" doc:"Identifier or name; needed"`
	Force   bool   `json:"force,omitempty" doc:"Also from a lease that is over, before its host has confirmed that nothing is left of it"`
}

// VolumeMount is a volume in a new lease.
type VolumeMount struct {
	Volume   string `json:"volume" maxLength:"64" doc:"Identifier or name"`
	Path     string `json:"path" maxLength:"255" doc:"Absolute, inside of the instance" example:"/data"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// CreateVolume makes a volume.
func (c *Client) CreateVolume(ctx context.Context, in VolumeCreate) (*Volume, error) {
	return do[Volume](ctx, c, http.MethodPost, "/v1/volumes", in)
}

// Volumes returns the caller's volumes, newest first; with open, those that are not
// over.
func (c *Client) Volumes(ctx context.Context, open bool) ([]Volume, error) {
	return collect(all[Volume](ctx, c, "/v1/volumes", url.Values{"open": {strconv.FormatBool(open)}}))
}

// Volume returns one volume, by identifier or by name.
func (c *Client) Volume(ctx context.Context, nameOrID string) (*Volume, error) {
	return do[Volume](ctx, c, http.MethodGet, volumePath(nameOrID), nil)
}

// AttachVolume gives a volume to a lease that is stopped.
func (c *Client) AttachVolume(ctx context.Context, nameOrID string, in VolumeAttach) (*Volume, error) {
	return do[Volume](ctx, c, http.MethodPost, volumePath(nameOrID)+"/attach", in)
}

// DetachVolume takes a volume from a lease that is stopped.
func (c *Client) DetachVolume(ctx context.Context, nameOrID string, in VolumeDetach) (*Volume, error) {
	return do[Volume](ctx, c, http.MethodPost, volumePath(nameOrID)+"/detach", in)
}

// DeleteVolume removes a volume with all that is in it.
func (c *Client) DeleteVolume(ctx context.Context, nameOrID string) (*Volume, error) {
	return do[Volume](ctx, c, http.MethodDelete, volumePath(nameOrID), nil)
}

func volumePath(nameOrID string) string { return "/v1/volumes/" + url.PathEscape(nameOrID) }
