package lease

import (
	"context"
	"path"
	"strings"
	"unicode/utf8"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// VolumeUse is a volume that a lease is to have.
type VolumeUse struct {
	Volume   string // identifier, or name within the account
	Path     string // absolute, inside of the instance
	ReadOnly bool
}

// Attachment asks for volumes for a new lease.
type Attachment struct {
	LeaseID, AccountID, HostID string
	Uses                       []VolumeUse
}

// maxVolumes bounds the volumes of one lease.
const maxVolumes = 16

// ownPaths are the instance's own; a volume there would hide what the cloud or the
// kernel puts in them.
var ownPaths = []string{"/", "/proc", "/sys", "/dev", "/etc", "/.suanli"}

// CheckMount reports why a volume cannot be mounted at a path, as a fault.
func CheckMount(location, at string) error {
	if len(at) > 255 || !utf8.ValidString(at) || !path.IsAbs(at) || path.Clean(at) != at || strings.ContainsAny(at, "\x00\n:") {
		return invalid(location, "invalid_mount_path", "a volume cannot be mounted at %.300q: want an absolute path of at most 255 bytes without \":\", such as /data", at)
	}
	for _, own := range ownPaths {
		if at == own || own != "/" && own != "/etc" && strings.HasPrefix(at, own+"/") {
			return invalid(location, "invalid_mount_path", "a volume cannot be mounted at %s, which is the instance's own; choose another path, such as /data", at)
		}
	}
	return nil
}

func checkVolumes(list []VolumeUse) error {
	if len(list) > maxVolumes {
		return invalid("body.volumes", "too_many_volumes", "%d volumes were asked for; a lease can have %d", len(list), maxVolumes)
	}
	seen := map[string]bool{}
	for _, u := range list {
		if err := CheckMount("body.volumes", u.Path); err != nil {
			return err
		}
		if seen[u.Path] || seen[" "+u.Volume] {
			return invalid("body.volumes", "duplicate_volume", "the volume %q at %s: each volume and each path can be given once", u.Volume, u.Path)
		}
		seen[u.Path], seen[" "+u.Volume] = true, true
	}
	return nil
}

func (s *Service) attach(ctx context.Context, tx *store.Tx, l *Lease, uses []VolumeUse) error {
	if len(uses) == 0 {
		return nil
	}
	if s.Volumes == nil {
		return fault.New(fault.NotFound, "volume_not_found", "this cloud has no volumes")
	}
	return s.Volumes.Attach(ctx, tx, Attachment{LeaseID: l.ID, AccountID: l.AccountID, HostID: l.HostID, Uses: uses})
}

// Lock returns a lease of the caller's account and keeps its state from changing
// until the end of the transaction.
func (s *Service) Lock(ctx context.Context, tx *store.Tx, p account.Principal, id string) (*Lease, error) {
	l, err := loadLease(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if l.AccountID != p.AccountID {
		return nil, notFound(id)
	}
	return l, nil
}

// PriceDisk freezes what disk that is kept without a lease costs an account: by the
// terms of its host, the account's own price list and its currency. timeZone is the
// account's, in which months are counted.
func (s *Service) PriceDisk(ctx context.Context, accountID string, t fleet.DiskTerms, diskGiB int64, timeZone string) (pricing.Quote, error) {
	now := s.Clock()
	mine, err := s.ownTariff(ctx, accountID, pricing.Tariff{Currency: t.Currency, Storage: t.Storage, Granularity: pricing.Second, CommissionBasisPoints: t.CommissionBasisPoints})
	if err == nil {
		mine, err = s.byPriceList(ctx, mine, accountID, fleet.Offer{}, now)
	}
	if err != nil {
		return pricing.Quote{}, err
	}
	q, err := mine.quote(pricing.Request{Plan: pricing.OnDemand, DiskGiB: diskGiB, TimeZone: timeZone, Simulated: t.Simulated}, now)
	if err != nil {
		return pricing.Quote{}, unpriceable(err)
	}
	return q, nil
}
