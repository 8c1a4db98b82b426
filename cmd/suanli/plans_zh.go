package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Prices in %s. For the run: %s, whole terms included. Due now is taken before anything runs.": "价格单位 %s。本次运行：%s，含整个付费周期。“立即付”在运行前扣除。",
		"PLAN":         "计费方式",
		"BUYABLE":      "可购买",
		"DUE NOW":      "立即付",
		"NOT INCLUDED": "不含",
		"yes":          "是",
		"%d months":    "%d 个月",
		"price it under all plans, side by side; nothing is frozen": "并列显示所有计费方式的价格，不锁定价格",
	})
	maps.Copy(words, map[string][2]string{
		"on_demand":               {"on demand", "按量"},
		"spot":                    {"spot", "竞价"},
		"reserved":                {"reserved", "预留"},
		"monthly":                 {"monthly", "包月"},
		"trial":                   {"trial", "试用"},
		"none":                    {"nothing upfront", "零预付"},
		"partial":                 {"half upfront", "预付一半"},
		"all":                     {"all upfront", "全额预付"},
		"not_offered":             {"not offered", "不提供"},
		"bid_too_low":             {"bid too low", "出价过低"},
		"trial_expired":           {"trial used up or over", "试用已用完或已到期"},
		"month":                   {"month", "月"},
		"GB":                      {"GB", "GB"},
		"ingress":                 {"ingress", "入站流量"},
		"public_ip":               {"public address", "公网地址"},
		"snapshot":                {"snapshots", "快照"},
		"volume":                  {"volumes", "存储卷"},
		"ingress_beyond_estimate": {"ingress beyond the estimate", "超出预估的入站流量"},
		"market_price_changes":    {"changes of the market price, up to the bid", "市场价变动（不超过出价）"},
		"renewal":                 {"renewal of the term", "周期续费"},
		"use_beyond_grant":        {"use beyond the trial", "超出试用额度的用量"},
		"unused_hours":            {"unused hours, which are paid for all the same", "未使用的小时数（照常付费）"},
	})
}
