package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Snapshot is a copy of a volume in object storage.
type Snapshot struct {
	ID               string     `json:"id"`
	Name             string     `json:"name"`
	VolumeID         string     `json:"volume_id" doc:"That it is a copy of, which may be gone"`
	Kind             string     `json:"kind" enum:"manual,scheduled,passing" doc:"passing ones are of volumes that are cloned, moved or made larger; they cost nothing and go when that is done"`
	State            string     `json:"state" enum:"available,copying,failing,failed,deleting,deleted"`
	Code             string     `json:"code,omitempty" doc:"Why it is in this state, for programs"`
	Message          string     `json:"message,omitempty" doc:"Why it is in this state, for people"`
	SizeGiB          int64      `json:"size_gib" doc:"Of the volume; one that is made of it has that or more"`
	StoredBytes      int64      `json:"stored_bytes" doc:"In object storage, compressed; so far, while it is copied"`
	ContentSHA256    string     `json:"content_sha256,omitempty" doc:"Of what is in it, by which each volume that is made of it is checked"`
	Region           string     `json:"region" doc:"Volumes can be made of it on hosts of this region"`
	Simulated        bool       `json:"simulated"`
	Currency         string     `json:"currency,omitempty"`
	PricePerGiBMonth Rate       `json:"price_per_gib_month,omitempty" doc:"Of stored GiB, rounded up; frozen when it was complete"`
	PerMonth         Amount     `json:"per_month,omitempty" doc:"Of the whole in the month in which it was complete"`
	CreatedAt        time.Time  `json:"created_at"`
	ReadyAt          *time.Time `json:"ready_at,omitempty" doc:"Since when it is complete and charged for"`
	EndedAt          *time.Time `json:"ended_at,omitempty"`
}

// SnapshotCreate asks for a snapshot of a volume.
type SnapshotCreate struct {
	Name string `json:"name,omitempty" maxLength:"63" doc:"Left out: one is made up"`
}

// VolumeClone asks for a second volume with what is in one.
type VolumeClone struct {
	Name    string `json:"name,omitempty" maxLength:"63" doc:"Left out: one is made up"`
	HostID  string `json:"host_id,omitempty" maxLength:"64" doc:"Of the volume's region; left out: the volume's own"`
	SizeGiB int64  `json:"size_gib,omitempty" minimum:"0" maximum:"1024" doc:"Left out: the volume's own"`
}

// VolumeMove asks for a volume to be on another host, or larger.
type VolumeMove struct {
	HostID  string `json:"host_id,omitempty" maxLength:"64" doc:"Of the volume's region; left out: the volume's own"`
	SizeGiB int64  `json:"size_gib,omitempty" minimum:"0" maximum:"1024" doc:"Left out: the volume's own"`
}

// VolumeBackup is when a volume is backed up.
type VolumeBackup struct {
	EveryHours int64      `json:"every_hours,omitempty" minimum:"0" maximum:"8784" doc:"0: not any more; what there is stays"`
	Keep       int64      `json:"keep,omitempty" minimum:"0" maximum:"100" doc:"Of the last backups; older ones are removed when a new one is complete"`
	NextAt     *time.Time `json:"next_at,omitempty" readOnly:"true" doc:"When the next is due. While a lease with the volume runs none is taken"`
}

// CreateSnapshot begins a snapshot of a volume.
func (c *Client) CreateSnapshot(ctx context.Context, volume string, in SnapshotCreate) (*Snapshot, error) {
	return do[Snapshot](ctx, c, http.MethodPost, volumePath(volume)+"/snapshots", in)
}

// Snapshots returns the caller's snapshots, newest first: of one volume, unless that is
// empty; with open, those that are not over.
func (c *Client) Snapshots(ctx context.Context, volume string, open bool) ([]Snapshot, error) {
	q := url.Values{"open": {strconv.FormatBool(open)}}
	if volume != "" {
		q.Set("volume", volume)
	}
	return collect(all[Snapshot](ctx, c, "/v1/snapshots", q))
}

// Snapshot returns one snapshot, by identifier or by name.
func (c *Client) Snapshot(ctx context.Context, nameOrID string) (*Snapshot, error) {
	return do[Snapshot](ctx, c, http.MethodGet, snapshotPath(nameOrID), nil)
}

// DeleteSnapshot removes a snapshot.
func (c *Client) DeleteSnapshot(ctx context.Context, nameOrID string) (*Snapshot, error) {
	return do[Snapshot](ctx, c, http.MethodDelete, snapshotPath(nameOrID), nil)
}

// CloneVolume begins to make a second volume with what is in one, and returns it.
func (c *Client) CloneVolume(ctx context.Context, nameOrID string, in VolumeClone) (*Volume, error) {
	return do[Volume](ctx, c, http.MethodPost, volumePath(nameOrID)+"/clone", in)
}

// MoveVolume begins to put another volume in the place of one, and returns that.
func (c *Client) MoveVolume(ctx context.Context, nameOrID string, in VolumeMove) (*Volume, error) {
	return do[Volume](ctx, c, http.MethodPost, volumePath(nameOrID)+"/move", in)
}

// BackUpVolume sets when a volume is backed up.
func (c *Client) BackUpVolume(ctx context.Context, nameOrID string, in VolumeBackup) (*Volume, error) {
	return do[Volume](ctx, c, http.MethodPut, volumePath(nameOrID)+"/backup", in)
}

func snapshotPath(nameOrID string) string { return "/v1/snapshots/" + url.PathEscape(nameOrID) }
