package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Credit limits: what may be used before it is paid":    "信用额度：付款前可使用的金额",
		"Show a credit limit, and how much of it is used":      "查看信用额度及已用金额",
		"Let an account use so much before it pays (operator)": "设置账户付款前可使用的金额（运营方）",
		"What is used up to now is charged under the old limit. If debt is beyond the new one, what runs stops as it does with an empty balance.": "此前的用量按原额度计费。若欠款超过新额度，运行中的实例会像余额用尽时一样停止。",
		"%s may use %s %s before it pays, and has %d days to pay an invoice":                                                                      "%s 付款前可使用 %s %s，账单付款期限为 %d 天",
		"days to pay an invoice (default: the cloud's setting)":                                                                                   "账单付款天数（默认：云的设置）",
		"Take an account's credit back: it is prepaid from then on (operator)":                                                                    "收回账户的信用额度，此后改为预付费（运营方）",
		"%s has no credit any more":                             "%s 不再有信用额度",
		"List what is owed of invoices, and by when":            "列出账单的欠款和到期时间",
		"of this account (operator)":                            "指定账户（运营方）",
		"Give up what is owed of an overdue invoice (operator)": "核销逾期账单的欠款（运营方）",
		"%s %s of %s is written off":                            "已核销 %s %s（账单 %s）",
		"CREDIT LIMIT":                                          "信用额度",
		"DAYS TO PAY":                                           "付款天数",
		"OWED":                                                  "欠款",
		"DUE":                                                   "到期",
		"COMPUTE STOPS":                                         "停机时间",
	})
	maps.Copy(words, map[string][2]string{
		"open":            {"open", "未付"},
		"due":             {"due today", "今日到期"},
		"overdue":         {"overdue", "逾期"},
		"paid":            {"paid", "已付"},
		"credited":        {"credited", "已冲销"},
		"uncollectible":   {"written off", "已核销"},
		"invoice_overdue": {"invoice overdue", "账单逾期"},
	})
}
