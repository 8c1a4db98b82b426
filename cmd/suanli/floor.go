package main

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"suanli.dev/api"
)

// floorWishes are what a host wants of bids at least.
type floorWishes struct {
	fixed, ofOnDemand, ofLast, least, most string
	none                                   bool
}

func (w *floorWishes) flags(f *pflag.FlagSet) {
	f.StringVar(&w.fixed, "spot-floor", "", tr("the least that a bid pays for one of these GPUs for an hour"))
	f.StringVar(&w.ofOnDemand, "spot-floor-of-on-demand", "", tr("floor that follows the median price on demand, such as 40%"))
	f.StringVar(&w.ofLast, "spot-floor-of-last", "", tr("floor that follows the last price on the spot market, such as 90%"))
	f.StringVar(&w.least, "spot-floor-min", "", tr("what a floor that follows the market is at least"))
	f.StringVar(&w.most, "spot-floor-max", "", tr("what a floor that follows the market is at most"))
	f.BoolVar(&w.none, "no-spot-floor-rule", false, tr("floors follow the market no longer"))
}

// into adds the wishes to a change of a listing.
func (w *floorWishes) into(in *api.UpdateListing, model string) error {
	if w.fixed != "" {
		v, err := api.ParseRate(w.fixed)
		if err != nil {
			return usageError{err}
		}
		in.SpotFloorPerGPUHour = map[string]api.Rate{model: v}
	}
	follows := w.ofOnDemand != "" || w.ofLast != "" || w.least != "" || w.most != ""
	if w.none {
		if follows {
			return usageError{errors.New(tr("--no-spot-floor-rule takes the rule back: it goes with no part of one"))}
		}
		in.SpotFloorRule = &api.SpotFloorRule{}
		return nil
	}
	if !follows {
		return nil
	}
	if w.ofOnDemand == "" && w.ofLast == "" {
		return usageError{errors.New(tr("--spot-floor-min and --spot-floor-max bound a floor that follows the market: give --spot-floor-of-on-demand or --spot-floor-of-last, too"))}
	}
	var r api.SpotFloorRule
	for _, part := range []struct {
		flag, text string
		most       int
		into       *int
	}{{"--spot-floor-of-on-demand", w.ofOnDemand, 100_000, &r.OfOnDemandBasisPoints}, {"--spot-floor-of-last", w.ofLast, 10_000, &r.OfLastBasisPoints}} {
		if part.text == "" {
			continue
		}
		v, ok := basisPoints(part.text)
		if !ok || v > part.most {
			return usageError{errors.New(tr("%s %q: want a share such as 40%%, at most %d%%", part.flag, part.text, part.most/100))}
		}
		*part.into = v
	}
	for _, bound := range []struct {
		text string
		into *api.Rate
	}{{w.least, &r.MinPerGPUHour}, {w.most, &r.MaxPerGPUHour}} {
		if bound.text == "" {
			continue
		}
		v, err := api.ParseRate(bound.text)
		if err != nil {
			return usageError{err}
		}
		*bound.into = v
	}
	in.SpotFloorRule = &r
	return nil
}

// basisPoints reads a share such as "40%", "12.5 %" or "40" in hundredths of a per
// cent.
func basisPoints(text string) (int, bool) {
	whole, part, _ := strings.Cut(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")), ".")
	if whole == "" || len(whole) > 4 || len(part) > 2 || strings.Trim(whole+part, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(whole + part + strings.Repeat("0", 2-len(part)))
	return n, err == nil
}

// floors says in words what a listing wants of bids.
func floors(l api.Listing) []string {
	var out []string
	for _, model := range slices.Sorted(maps.Keys(l.SpotFloorPerGPUHour)) {
		out = append(out, tr("%s: %s per GPU-hour", model, l.SpotFloorPerGPUHour[model].Display()))
	}
	r := l.SpotFloorRule
	if r == nil {
		if len(out) == 0 {
			out = append(out, tr("the usual 30 per cent of the median price on demand, as none is set"))
		}
		return out
	}
	if r.OfOnDemandBasisPoints > 0 {
		out = append(out, tr("%s of the median price on demand", share(int64(r.OfOnDemandBasisPoints))))
	}
	if r.OfLastBasisPoints > 0 {
		out = append(out, tr("%s of the last price on the spot market", share(int64(r.OfLastBasisPoints))))
	}
	if r.MinPerGPUHour > 0 {
		out = append(out, tr("at least %s per GPU-hour", r.MinPerGPUHour.Display()))
	}
	if r.MaxPerGPUHour > 0 {
		out = append(out, tr("at most %s per GPU-hour", r.MaxPerGPUHour.Display()))
	}
	return out
}

// later says how long GPUs are waited for that the spot market has, if at all.
func later(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return " " + tr("(after %s)", short(seconds))
}

func init() {
	maps.Copy(zhTexts, map[string]string{
		"the least that a bid pays for one of these GPUs for an hour":                                                                              "竞价使用一块此类 GPU 一小时至少要付的价格",
		"floor that follows the median price on demand, such as 40%":                                                                               "跟随按需中位价的底价，例如 40%",
		"floor that follows the last price on the spot market, such as 90%":                                                                        "跟随竞价市场上一次成交价的底价，例如 90%",
		"what a floor that follows the market is at least":                                                                                         "跟随市场的底价的下限",
		"what a floor that follows the market is at most":                                                                                          "跟随市场的底价的上限",
		"floors follow the market no longer":                                                                                                       "底价不再跟随市场",
		"--no-spot-floor-rule takes the rule back: it goes with no part of one":                                                                    "--no-spot-floor-rule 用于取消规则，不能与规则的任何部分同用",
		"%s %q: want a share such as 40%%, at most %d%%":                                                                                           "%s %q：应为 40%% 这样的比例，最多 %d%%",
		"--gpu-model goes with --per-gpu-hour, --spot-floor, or both, and they with it":                                                            "--gpu-model 须与 --per-gpu-hour、--spot-floor 之一或两者同用，反之亦然",
		"--spot-floor-min and --spot-floor-max bound a floor that follows the market: give --spot-floor-of-on-demand or --spot-floor-of-last, too": "--spot-floor-min 和 --spot-floor-max 限制跟随市场的底价：请同时给出 --spot-floor-of-on-demand 或 --spot-floor-of-last",
		"%s: %s per GPU-hour": "%s：每 GPU 小时 %s",
		"the usual 30 per cent of the median price on demand, as none is set":                  "按需中位价的 30 %（未设置底价）",
		"%s of the median price on demand":                                                     "按需中位价的 %s",
		"%s of the last price on the spot market":                                              "竞价市场上一次成交价的 %s",
		"at least %s per GPU-hour":                                                             "每 GPU 小时至少 %s",
		"at most %s per GPU-hour":                                                              "每 GPU 小时最多 %s",
		"signal to the command when a spot lease is told of its interruption, such as SIGUSR1": "竞价租约收到中断预告时发给主进程的信号，例如 SIGUSR1",
		"line of shell to run inside then":                                                     "此时在实例内运行的 shell 命令",
		"SPOT FLOOR":                                                                           "竞价底价",
		"(after %s)":                                                                           "（%s 后可用）",
		"Its GPUs are let on the spot market: it starts when they have been left, after %s, and costs nothing before": "这些 GPU 正在竞价市场上出租：%s 后腾出并启动，此前不收费",
		"waits for its GPUs until %s": "等待 GPU，直到 %s",
	})
	maps.Copy(words, map[string][2]string{
		"claim_met": {"claim_met", "等到 GPU"},
	})
}
