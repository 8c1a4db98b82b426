package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Budgets: be told, refuse or stop when so much is spent in a month": "预算：当月支出达到金额时通知、拒绝新租约或停止租约",
		"List budgets with how they stand":                                  "列出预算及其使用情况",
		"Show how a budget stands, and what was told":                       "查看预算的使用情况与已发通知",
		"Set a budget for the account, a label or a user":                   "为账户、标签或用户设置预算",
		"Change a budget's name, amount, thresholds or action":              "修改预算的名称、金额、阈值或动作",
		"Remove a budget; what it refused is allowed again":                 "删除预算；之前被其拒绝的租约恢复允许",
		"Budget %s is removed":                                              "预算 %s 已删除",
		"PERIOD":                                                            "周期",
		"SCOPE":                                                             "范围",
		"FORECAST":                                                          "预测",
		"ACTION":                                                            "动作",
		"BUDGET":                                                            "预算",
		"SPENT":                                                             "已用",
		"THRESHOLD":                                                         "阈值",
		"TOLD":                                                              "已通知",
		"SIMULATED":                                                         "其中模拟 GPU",
		"the account":                                                       "整个账户",
		"(now)":                                                             "（已生效）",
		"of the forecast":                                                   "（按预测）",
		"%s, of which %s are not posted yet":                                "%s，其中 %s 尚未入账",
		"%s at %s an hour":                                                  "%s（每小时 %s）",
		"threshold %q: want a share such as 80%%, or forecast:100%%":                                                                       "阈值 %q 不可用：应为如 80%% 的比例，或 forecast:100%%",
		"share in per cent at which you are told, such as 80, or forecast:100 for what the period is expected to come to; may be repeated": "达到该百分比时通知，例如 80；forecast:100 表示按周期预测；可重复",
		"only leases with this label count, key=value":                                                                                     "只计算带有该标签（键=值）的租约",
		"only leases that this user made count: identifier or e-mail address":                                                              "只计算该用户创建的租约：标识符或电子邮箱",
		"beginning of a fixed period, such as 2026-03-01T00:00:00Z (default: each calendar month)":                                         "固定周期的开始，例如 2026-03-01T00:00:00Z（默认：每个自然月）",
		"end of a fixed period": "固定周期的结束",
		"once all of it is spent: tell, refuse new leases, or stop those in its scope (default: tell)": "全部用完后：tell 仅通知，refuse 拒绝新租约，stop 停止范围内的租约（默认：tell）",
		"nobody in this account has the address %s":                                                    "本账户中没有使用 %s 的用户",
		"another name":    "新名称",
		"for each period": "每个周期的金额",
	})
	maps.Copy(words, map[string][2]string{
		"budget_tell":   {"tell", "仅通知"},
		"budget_refuse": {"refuse new leases", "拒绝新租约"},
		"budget_stop":   {"stop leases", "停止租约"},
		"budget":        {"a budget is used up", "预算已用完"},
	})
	maps.Copy(zhCodes, map[string]string{
		"budget_invalid":   "预算的内容不可用",
		"budget_exists":    "已有同名预算",
		"budget_not_found": "没有这个预算",
		"budget_limit":     "账户的预算数量已达上限",
		"budget_reached":   "预算已用完，不再允许新的租约",
	})
}
