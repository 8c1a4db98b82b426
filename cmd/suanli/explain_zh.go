package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"List charges, newest first": "列出扣费，最新的在前",
		"CHARGE":                     "扣费",
		"Say how a charge came about, from the quote and the use alone": "说明一笔扣费的由来，只依据报价和使用记录",
		"Say how a charge came about, from the quote and the use alone.\n\nCHARGE is the identifier of a charge (suanli bill charges) or of a transfer, or the number of a credit note. The last line says whether computing the figure again gives exactly what was posted.": "说明一笔扣费的由来，只依据报价和使用记录。\n\nCHARGE 是扣费（suanli bill charges）或转账的标识，或贷记通知的编号。最后一行说明重新计算是否与入账金额完全一致。",
	})
}
