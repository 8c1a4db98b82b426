package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"say until when the rate may be used, with --until 2027-01-01T00:00:00Z; an old rate is worse than none": "请用 --until 2027-01-01T00:00:00Z 说明汇率用到何时；过期的汇率不如没有",
		"Your e-mail address is proven already; the code was not needed.":                                        "邮箱此前已验证，无需验证码。",
		"%s %d: want at least 1":             "%s %d：至少为 1",
		"the amount is %s; want more than 0": "金额为 %s；应大于 0",
	})
}
