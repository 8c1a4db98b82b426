package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"List charges, newest first":                               "列出扣费，最新的在前",
		"Export a month's costs by the FinOps specification FOCUS": "按 FinOps 的 FOCUS 规范导出一个月的费用",
		"the format %q is not known; want focus":                   "未知格式 %q，应为 focus",
		"--as %q: want csv or jsonl":                               "--as %q：应为 csv 或 jsonl",
		"what to export: focus":                                    "导出格式：focus",
		"a month, such as 2026-11 (default: this one, so far)":     "月份，如 2026-11（默认：本月至今）",
		"csv or jsonl": "csv 或 jsonl",
		"file to write, or - for the terminal (default: focus-PERIOD.csv)": "写入的文件，- 为终端（默认：focus-PERIOD.csv）",
		"a credit note is there as pdf only":                               "贷记通知只有 pdf 格式",
		"number of one of its credit notes, to download that":              "该账单某份贷记通知的编号，下载该通知",
		"CHARGE": "扣费",
		"Say how a charge came about, from the quote and the use alone": "说明一笔扣费的由来，只依据报价和使用记录",
		"Say how a charge came about, from the quote and the use alone.\n\nCHARGE is the identifier of a charge (suanli bill charges) or of a transfer, or the number of a credit note. The last line says whether computing the figure again gives exactly what was posted.": "说明一笔扣费的由来，只依据报价和使用记录。\n\nCHARGE 是扣费（suanli bill charges）或转账的标识，或贷记通知的编号。最后一行说明重新计算是否与入账金额完全一致。",
	})
}
