package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Other prices that providers propose for running leases":                        "提供者为运行中的租约提议的新价格",
		"List proposed prices, newest first":                                            "列出提议的价格，最新的在前",
		"what you proposed for leases on this host":                                     "您为该主机上的租约提议的价格",
		"Agree to a proposed price":                                                     "同意提议的价格",
		"Decline a proposed price: it stays as it is":                                   "拒绝提议的价格：价格不变",
		"Lease %s costs %s %s an hour from %s on":                                       "租约 %s 每小时 %s %s，自 %s 起",
		"Lease %s goes on to cost %s %s an hour":                                        "租约 %s 仍为每小时 %s %s",
		"Propose another price per GPU-hour to renters of leases on demand on a host":   "向主机上按需租约的租户提议新的每 GPU 小时价格",
		"only this lease (default: all on demand on the host)":                          "仅此租约（默认：该主机上所有按需租约）",
		"from when, such as 2026-03-01T00:00:00Z (default: after the notice of 7 days)": "生效时间，例如 2026-03-01T00:00:00Z（默认：7 天通知期之后）",
		"NEW":       "新价",
		"ANSWER BY": "答复期限",
	})
	maps.Copy(words, map[string][2]string{
		"price_proposed":  {"proposed", "待答复"},
		"price_accepted":  {"accepted", "已同意"},
		"price_declined":  {"declined", "已拒绝"},
		"price_withdrawn": {"withdrawn", "已撤回"},
		"price_expired":   {"expired", "已过期"},
	})
	maps.Copy(zhCodes, map[string]string{
		"notice_too_short":       "新价格的生效时间不符合通知期",
		"price_change_not_found": "没有这个价格提议",
		"price_change_over":      "该价格提议已不能答复",
		"not_on_demand":          "只有按需租约的价格可以协商修改",
	})
}
