package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/volume"
)

const tagVolumes = "Volumes"

// VolumePath is embedded in the input of operations on one volume.
type VolumePath struct {
	VolumeID string `path:"volume_id" maxLength:"64" doc:"Identifier, or the name of one that is there"`
}

func (a *API) registerVolumes() {
	if a.Volumes == nil {
		return
	}
	const path = "/v1/volumes/{volume_id}"
	register(a, operation{
		ID: "createVolume", Method: http.MethodPost, Path: "/v1/volumes", Summary: "Make a volume on a host", Tag: tagVolumes, Action: account.WriteLeases, Status: http.StatusCreated, Idempotent: true,
		Description: "Its price is the host's for storage at this moment and stays as it is. It is charged for from when its host has made it until it is removed, whether a lease has it or not.",
	}, func(ctx context.Context, p account.Principal, in *body[api.VolumeCreate]) (*body[api.Volume], error) {
		b := in.Body
		return volumeBody(a.Volumes.Create(ctx, p, volume.Request{Name: b.Name, HostID: b.HostID, SizeGiB: b.SizeGiB, Agreed: b.AgreedPerGiBMonth, Snapshot: b.Snapshot}))
	})
	register(a, operation{ID: "listVolumes", Method: http.MethodGet, Path: "/v1/volumes", Summary: "List your volumes", Tag: tagVolumes, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *struct {
			Paging
			Open bool `query:"open" doc:"Only those that are not over"`
		}) (*body[page[api.Volume]], error) {
			list, next, err := a.Volumes.List(ctx, p, in.Open, in.Cursor, in.Limit)
			if err != nil {
				return nil, err
			}
			out := whole(list, volumeJSON)
			out.Body.NextCursor = next
			return out, nil
		})
	register(a, operation{ID: "getVolume", Method: http.MethodGet, Path: path, Summary: "Read a volume", Tag: tagVolumes, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *VolumePath) (*body[api.Volume], error) {
			return volumeBody(a.Volumes.Get(ctx, p, in.VolumeID))
		})
	register(a, operation{ID: "deleteVolume", Method: http.MethodDelete, Path: path, Summary: "Remove a volume with all that is in it", Tag: tagVolumes, Action: account.WriteLeases, Idempotent: true,
		Description: "It is not charged for any more from now on. One that a lease has is refused."},
		func(ctx context.Context, p account.Principal, in *VolumePath) (*body[api.Volume], error) {
			return volumeBody(a.Volumes.Remove(ctx, p, in.VolumeID))
		})
	register(a, operation{ID: "attachVolume", Method: http.MethodPost, Path: path + "/attach", Summary: "Give a volume to a lease that is stopped", Tag: tagVolumes, Action: account.WriteLeases, Idempotent: true,
		Description: "The lease has it from its next start on, until it is detached or the lease is over. One lease may write to a volume, any number may read."},
		func(ctx context.Context, p account.Principal, in *struct {
			VolumePath
			Body api.VolumeAttach
		}) (*body[api.Volume], error) {
			return volumeBody(a.Volumes.AttachTo(ctx, p, in.VolumeID, in.Body.LeaseID, in.Body.Path, in.Body.ReadOnly))
		})
	register(a, operation{ID: "detachVolume", Method: http.MethodPost, Path: path + "/detach", Summary: "Take a volume from a lease that is stopped", Tag: tagVolumes, Action: account.WriteLeases, Idempotent: true},
		func(ctx context.Context, p account.Principal, in *struct {
			VolumePath
			Body api.VolumeDetach
		}) (*body[api.Volume], error) {
			return volumeBody(a.Volumes.DetachFrom(ctx, p, in.VolumeID, in.Body.LeaseID, in.Body.Force))
		})
}

func volumeBody(v *volume.Volume, err error) (*body[api.Volume], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Volume]{volumeJSON(v)}, nil
}

func volumeJSON(v *volume.Volume) api.Volume {
	out := api.Volume{
		ID: v.ID, Name: v.Name, State: string(v.State), Code: v.Code, Message: v.Message, SizeGiB: v.SizeGiB, HostID: v.HostID, Region: v.Region, Zone: v.Zone, Simulated: v.Simulated,
		Currency: string(v.Price.Currency), PricePerGiBMonth: v.Price.Tariff.Storage, PerMonth: v.Price.Totals.PerMonth, Attachments: []api.VolumeAttachment{},
		CreatedAt: v.CreatedAt, ReadyAt: moment(v.ReadyAt), EndedAt: moment(v.EndedAt),
	}
	out.SnapshotID, out.MovingTo = v.SnapshotID, v.MovingTo
	if v.State == volume.Creating {
		out.Replaces = v.Replaces
	}
	if v.BackupHours > 0 {
		out.Backup = &api.VolumeBackup{EveryHours: v.BackupHours, Keep: v.BackupKeep, NextAt: moment(v.BackupNext)}
	}
	for _, a := range v.Attachments {
		out.Attachments = append(out.Attachments, api.VolumeAttachment(a))
	}
	return out
}

func volumeUses(list []api.VolumeMount) (out []lease.VolumeUse) {
	for _, m := range list {
		out = append(out, lease.VolumeUse(m))
	}
	return out
}

// laterVolumes is volumes for leases, which are opened before them.
type laterVolumes struct{ of func() *volume.Service }

func (l laterVolumes) Attach(ctx context.Context, tx *store.Tx, a lease.Attachment) error {
	return l.of().Attach(ctx, tx, a)
}

func (l laterVolumes) Mounts(ctx context.Context, leaseID string) ([]protocol.VolumeMount, error) {
	return l.of().Mounts(ctx, leaseID)
}

func (l laterVolumes) Release(ctx context.Context, tx *store.Tx, leaseID string) error {
	return l.of().Release(ctx, tx, leaseID)
}
