package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Exchange rates between currencies (operator)":                       "货币之间的汇率（运营方）",
		"Enter what one unit of a currency is worth in another (operator)":   "录入一种货币对另一种货币的汇率（运营方）",
		"List the exchange rates that were entered, newest first (operator)": "列出已录入的汇率，最新的在前（运营方）",
		"Accounts rent what is priced in another currency by the rate in force; their quotes keep it. A rate converts one way only. Nothing is quoted by a rate that is over.": "账户租用以其他货币标价的资源时按现行汇率计价，报价会固定该汇率。汇率只用于单向换算；已过期的汇率不再用于报价。",
		"One %s is %s %s until %s (%s)": "1 %s 合 %s %s，有效至 %s（%s）",
		"whose rate it is":              "汇率来源",
		"when it begins, such as 2027-01-01T00:00:00Z (default: now)": "生效时间，例如 2027-01-01T00:00:00Z（默认现在）",
		"when it is over, such as 2027-01-01T00:00:00Z":               "失效时间，例如 2027-01-01T00:00:00Z",
		"WORTH":  "汇率值",
		"SOURCE": "来源",
		"BEGINS": "生效",
		"ENDS":   "失效",
		"Priced in %s; one %s is %s %s by %s (since %s, rate %s), which the quote keeps.": "以 %s 标价；1 %s 合 %s %s，来源 %s（自 %s 起，汇率 %s），已固定在报价中。",
	})
	maps.Copy(zhCodes, map[string]string{
		"invalid_exchange_rate": "汇率的参数不正确",
		"exchange_rate_missing": "尚无两种货币之间的汇率",
		"exchange_rate_stale":   "两种货币之间的汇率已过期",
	})
}
