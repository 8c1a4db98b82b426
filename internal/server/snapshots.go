package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/volume"
)

// SnapshotPath is embedded in the input of operations on one snapshot.
type SnapshotPath struct {
	SnapshotID string `path:"snapshot_id" maxLength:"64" doc:"Identifier, or the name of one that is there"`
}

func (a *API) registerSnapshots() {
	if a.Volumes == nil {
		return
	}
	const path = "/v1/snapshots/{snapshot_id}"
	const ofVolume = "/v1/volumes/{volume_id}"
	register(a, operation{
		ID: "createSnapshot", Method: http.MethodPost, Path: ofVolume + "/snapshots", Summary: "Copy a volume to object storage", Tag: tagVolumes, Action: account.WriteLeases, Status: http.StatusCreated, Idempotent: true,
		Description: "While no lease with the volume runs; one that starts meanwhile ends the copy. It is charged for from when it is complete, by stored GiB and month, until it is removed.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		VolumePath
		Body api.SnapshotCreate
	}) (*body[api.Snapshot], error) {
		return snapshotBody(a.Volumes.TakeSnapshot(ctx, p, in.VolumeID, in.Body.Name))
	})
	register(a, operation{ID: "listSnapshots", Method: http.MethodGet, Path: "/v1/snapshots", Summary: "List your snapshots", Tag: tagVolumes, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *struct {
			Paging
			Volume string `query:"volume" maxLength:"64" doc:"Only those of this volume"`
			Open   bool   `query:"open" doc:"Only those that are not over"`
		}) (*body[page[api.Snapshot]], error) {
			list, next, err := a.Volumes.ListSnapshots(ctx, p, in.Volume, in.Open, in.Cursor, in.Limit)
			if err != nil {
				return nil, err
			}
			out := whole(list, snapshotJSON)
			out.Body.NextCursor = next
			return out, nil
		})
	register(a, operation{ID: "getSnapshot", Method: http.MethodGet, Path: path, Summary: "Read a snapshot", Tag: tagVolumes, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *SnapshotPath) (*body[api.Snapshot], error) {
			return snapshotBody(a.Volumes.Snapshot(ctx, p, in.SnapshotID))
		})
	register(a, operation{ID: "deleteSnapshot", Method: http.MethodDelete, Path: path, Summary: "Remove a snapshot", Tag: tagVolumes, Action: account.WriteLeases, Idempotent: true,
		Description: "It is not charged for any more from now on. One that a volume is being made of is refused."},
		func(ctx context.Context, p account.Principal, in *SnapshotPath) (*body[api.Snapshot], error) {
			return snapshotBody(a.Volumes.RemoveSnapshot(ctx, p, in.SnapshotID))
		})
	register(a, operation{ID: "cloneVolume", Method: http.MethodPost, Path: ofVolume + "/clone", Summary: "Make a second volume with what is in one", Tag: tagVolumes, Action: account.WriteLeases, Status: http.StatusCreated, Idempotent: true,
		Description: "By way of object storage, on any host of the volume's region. The answer is the new volume, which is charged for from when it is made."},
		func(ctx context.Context, p account.Principal, in *struct {
			VolumePath
			Body api.VolumeClone
		}) (*body[api.Volume], error) {
			return volumeBody(a.Volumes.Clone(ctx, p, in.VolumeID, volume.Copy(in.Body)))
		})
	register(a, operation{ID: "moveVolume", Method: http.MethodPost, Path: ofVolume + "/move", Summary: "Put a volume on another host, or make it larger", Tag: tagVolumes, Action: account.WriteLeases, Idempotent: true, Once: true,
		Description: "The answer is another volume, which takes the place and the name of the first at one moment, when it is made and checked against it; the first is removed then. Each is charged for up to or from that moment, the new one at the present price of its host. Removing the new one before gives the move up. No lease may have the volume."},
		func(ctx context.Context, p account.Principal, in *struct {
			VolumePath
			Body api.VolumeMove
		}) (*body[api.Volume], error) {
			return volumeBody(a.Volumes.MoveTo(ctx, p, in.VolumeID, volume.Copy{HostID: in.Body.HostID, SizeGiB: in.Body.SizeGiB}))
		})
	register(a, operation{ID: "setVolumeBackup", Method: http.MethodPut, Path: ofVolume + "/backup", Summary: "Set when a volume is backed up", Tag: tagVolumes, Action: account.WriteLeases, Idempotent: true,
		Description: "Backups are snapshots of the kind scheduled, the first at once. One that is due while a lease with the volume runs is taken when the lease has stopped. They outlive the volume."},
		func(ctx context.Context, p account.Principal, in *struct {
			VolumePath
			Body api.VolumeBackup
		}) (*body[api.Volume], error) {
			return volumeBody(a.Volumes.SetBackup(ctx, p, in.VolumeID, in.Body.EveryHours, in.Body.Keep))
		})
}

func snapshotBody(x *volume.Snapshot, err error) (*body[api.Snapshot], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Snapshot]{snapshotJSON(x)}, nil
}

func snapshotJSON(x *volume.Snapshot) api.Snapshot {
	out := api.Snapshot{
		ID: x.ID, Name: x.Name, VolumeID: x.VolumeID, Kind: string(x.Kind), State: string(x.State), Code: x.Code, Message: x.Message, SizeGiB: x.SizeGiB, StoredBytes: x.StoredBytes,
		ContentSHA256: x.ContentSHA256, Region: x.Region, Simulated: x.Simulated, CreatedAt: x.CreatedAt, ReadyAt: moment(x.ReadyAt), EndedAt: moment(x.EndedAt),
	}
	if q := x.Price; q != nil {
		out.Currency, out.PricePerGiBMonth, out.PerMonth = string(q.Currency), q.Tariff.Storage, q.Totals.PerMonth
	}
	return out
}
