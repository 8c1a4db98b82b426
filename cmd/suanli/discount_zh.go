package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"What a month's compute takes off":                           "按月算力用量的折扣",
		"Set what months that begin from now on take off (operator)": "设置此后开始的月份的用量折扣（运营方）",
		"List what months take off, newest first":                    "列出用量折扣，最新的在前",
		"Months that begin from now on take off %s in %s (%s)":       "此后开始的月份减 %s（货币 %s，%s）",
		"A tier takes its share off what an account pays for compute on demand and on the spot market in a calendar month of its time zone beyond a sum, up to the next tier. It is taken off when the month is closed. Without tiers nothing is.": "每一档对账户在其时区自然月内支付的按需与竞价算力费用中超过某金额、至下一档为止的部分按比例减免，月份结账时减去。不写档位则无折扣。",
		"DISCOUNT": "折扣",
		"TIERS":    "档位",
		"SET":      "设置时间",
		"nothing":  "无",
	})
	maps.Copy(words, map[string][2]string{
		"volume_discount": {"volume discount", "用量折扣"},
	})
	maps.Copy(zhCodes, map[string]string{
		"invalid_tiers": "用量折扣的档位不正确",
	})
}
