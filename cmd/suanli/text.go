package main

import (
	"fmt"
	"strings"
)

// chinese is whether texts are in Simplified Chinese. It is set once, before
// any command is made.
var chinese bool

// chooseLanguage looks at --lang, then SUANLI_LANG, then the locale.
func chooseLanguage(args []string, getenv func(string) string) {
	lang := ""
	for _, k := range []string{"LANG", "LC_MESSAGES", "LC_ALL", "SUANLI_LANG"} {
		if v := getenv(k); v != "" {
			lang = v
		}
	}
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--lang="); ok {
			lang = v
		}
		if a == "--lang" && i+1 < len(args) {
			lang = args[i+1]
		}
	}
	chinese = strings.HasPrefix(strings.ToLower(lang), "zh")
}

// spoken reports whether texts are there in a language that --lang names, by itself
// or as a locale.
func spoken(lang string) bool {
	l, _, _ := strings.Cut(strings.ToLower(lang), ".")
	l, _, _ = strings.Cut(strings.ReplaceAll(l, "-", "_"), "_")
	return l == "en" || l == "zh"
}

// tr returns a text in the language chosen, formatted. The English text is its
// own key; the table below has the other language, and a test checks that it
// is complete.
func tr(english string, args ...any) string {
	text := english
	if chinese {
		if zh, ok := zhTexts[english]; ok {
			text = zh
		}
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// words are values of the API that people read too: English first, then Chinese.
var words = map[string][2]string{
	"compute":   {"compute", "计算"},
	"storage":   {"storage", "存储"},
	"egress":    {"egress", "出站流量"},
	"hour":      {"hour", "小时"},
	"minute":    {"minute", "分钟"},
	"second":    {"second", "秒"},
	"s":         {"s", "秒"},
	"byte":      {"bytes", "字节"},
	"GiB·s":     {"GiB·s", "GiB·秒"},
	"GiB-month": {"GiB-month", "GiB·月"},
	"tax":       {"tax", "税费"},
	"on_demand": {"on demand", "按需"},
	"spot":      {"spot", "竞价"},

	// What a simulation leaves out of a trace.
	"no GPU":                  {"no GPU", "不使用 GPU"},
	"no run time":             {"no run time", "没有运行时间"},
	"no host is large enough": {"no host is large enough", "没有足够大的主机"},

	// What a payout is, and what moves a provider's balance.
	"requested":     {"requested", "已申请"},
	"approved":      {"approved", "已批准"},
	"paid":          {"paid", "已支付"},
	"declined":      {"declined", "已拒绝"},
	"returned":      {"returned", "已退回"},
	"charge":        {"charge", "收费"},
	"correction":    {"correction", "更正"},
	"payout":        {"payout", "付款"},
	"payout_return": {"payout returned", "付款退回"},
	"sla_credit":    {"service level credit", "服务水平退还"},
	"sla_clawback":  {"part of renters' credits", "租用者退还中的承担部分"},
	"penalty":       {"penalty", "罚扣"},

	// Who says that a lease could not be used.
	"control_plane":  {"control plane: host silent", "控制面：主机失联"},
	"host":           {"host: GPU lost", "主机：GPU 丢失"},
	"instance_probe": {"probe in the instance", "实例内探测"},
	"operator":       {"operator", "运营者"},
	"provider":       {"provider", "主机提供者"},
	// States of leases.
	"accepted":     {"accepted", "已接受"},
	"provisioning": {"provisioning", "准备中"},
	"running":      {"running", "运行中"},
	"stopping":     {"stopping", "停止中"},
	"stopped":      {"stopped", "已停止"},
	"starting":     {"starting", "启动中"},
	"interrupted":  {"interrupted", "被中断"},
	"unreachable":  {"unreachable", "失联"},
	"ending":       {"ending", "结束中"},
	"ended":        {"ended", "已结束"},
	"failed":       {"failed", "失败"},

	// What happens to leases.
	"accept":              {"accept", "接受"},
	"dispatch":            {"dispatch", "下发到主机"},
	"confirm_running":     {"confirm_running", "主机确认运行"},
	"confirm_stopped":     {"confirm_stopped", "主机确认停止"},
	"confirm_absent":      {"confirm_absent", "主机确认清除"},
	"confirm_interrupted": {"confirm_interrupted", "主机确认中断"},
	"report_failure":      {"report_failure", "主机报告失败"},
	"request_stop":        {"request_stop", "请求停止"},
	"request_start":       {"request_start", "请求启动"},
	"request_restart":     {"request_restart", "请求重启"},
	"request_end":         {"request_end", "请求结束"},
	"request_place":       {"request_place", "请求竞价位置"},
	"lose_host":           {"lose_host", "主机失联"},
	"lose_instance":       {"lose_instance", "实例丢失"},
	"notice":              {"notice", "中断预告"},
	"reprieve":            {"reprieve", "预告取消"},
	"outbid":              {"outbid", "出价落选"},
	"abandon_host":        {"abandon_host", "放弃主机"},
	"host_fault":          {"host_fault", "主机故障"},
	"host_fault_over":     {"host_fault_over", "主机故障结束"},

	// Why leases stopped or ended, the most usual.
	"commanded":      {"commanded", "按要求"},
	"restarted":      {"restarted", "重启"},
	"unpaid":         {"unpaid", "余额用尽"},
	"spending_cap":   {"spending_cap", "达到费用上限"},
	"host_abandoned": {"host_abandoned", "主机已放弃"},
	"waiting":        {"waiting", "等待中"},

	// States of hosts.
	"refused":     {"refused", "被拒绝"},
	"joining":     {"joining", "加入中"},
	"awaited":     {"awaited", "等待上报"},
	"not_ready":   {"not_ready", "未就绪"},
	"maintenance": {"maintenance", "维护中"},
	"untested":    {"untested", "未自检"},
	"invalid":     {"invalid", "自检未通过"},
	"unlisted":    {"unlisted", "未上架"},
	"listed":      {"listed", "已上架"},
	"degraded":    {"degraded", "降级"},
	"draining":    {"draining", "排空中"},
	"offline":     {"offline", "离线"},

	"egress_beyond_estimate": {"egress beyond the estimate", "超出预估的出站流量"},
	"market_price_changes":   {"changes of the market's price, up to the bid", "市场价格变动（不超过出价）"},

	// The states of bids.
	"placed":    {"placed", "已获位"},
	"noticed":   {"noticed", "即将中断"},
	"leaving":   {"leaving", "正在退出"},
	"paused":    {"paused", "已暂停"},
	"cancelled": {"cancelled", "已撤回"},
	"over":      {"over", "已结束"},
}

// reasons says why a bid is in its state; some of its codes mean other things elsewhere.
var reasons = map[string][2]string{
	"below_floor": {"no host takes so little", "低于所有主机的底价"},
	"no_host":     {"no host has as many GPUs for bids", "没有主机能为竞价提供这么多 GPU"},
	"no_room":     {"the GPUs are not free on one host", "没有一台主机同时空出这些 GPU"},
	"cooling":     {"was interrupted a moment ago", "刚被中断，稍后再参与"},
	"await":       {"won, and waits for its GPUs to become free", "已胜出，等待 GPU 空出"},
	"displaced":   {"a larger bundle needs the host", "更大的组合需要这台主机"},
	"outbid":      {"others bid more", "他人出价更高"},
	"on_demand":   {"a lease on demand needs the GPUs", "按需租约需要这些 GPU"},
}

// reason returns why a bid is in its state.
func reason(code string) string {
	if w, ok := reasons[code]; ok {
		if chinese {
			return w[1]
		}
		return w[0]
	}
	return word(code)
}

// word returns a value of the API as people of the language chosen read it. One
// that is not known stays as it is.
func word(value string) string {
	w, ok := words[value]
	switch {
	case !ok:
		return value
	case chinese:
		return w[1]
	}
	return w[0]
}
