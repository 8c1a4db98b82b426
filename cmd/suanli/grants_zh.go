package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Give an account money for use (operator)":                                             "向账户发放用量赠金（运营方）",
		"It pays before the balance, for use in its time only. What is not used then is lost.": "赠金先于余额支付，且只用于有效期内的用量，过期未用即失效。",
		"%s %s given to %s (%s)": "已发放 %s %s 给 %s（%s）",
		"as the account's trial, of which it has one; valid for 72 hours if nothing else is said": "作为该账户的试用赠金，每个账户仅一次；未另行指定时有效 72 小时",
		"how long it is valid from its first use, such as 72h":                                    "自首次使用起的有效时长，例如 72h",
		"when it expires, such as 2027-01-01T00:00:00Z":                                           "到期时间，例如 2027-01-01T00:00:00Z",
		"what it pays for, such as compute (default: all); may be repeated":                       "可支付的计费项，例如 compute（默认全部）；可重复指定",
		"Codes by which accounts get a grant":                                                     "优惠码：账户凭码领取赠金",
		"Make a coupon (operator)":                                                                "创建优惠码（运营方）",
		"for leases of this GPU model only":                                                       "只用于此 GPU 型号的租约",
		"It takes %s %% off what you use from now on, up to %s %s (%s)":                           "自现在起的用量减 %s%%，最多减 %s %s（%s）",
		"RULE is a code, a sum or a share up to a sum, and conditions: how many accounts (max=), when it can be redeemed (from=, until=), what it pays for (meters=). A sum pays before the balance; a share is taken off what is used, before that, and ends with until=.": "RULE 由代码、金额（或比例及其上限金额 upto=）和条件组成：可兑换的账户数（max=）、可兑换的时间（from=、until=）、适用的计费项（meters=）。金额先于余额支付；比例先于赠金从用量中减去，并在 until= 时结束。",
		"Coupon %s is made": "已创建优惠码 %s",
		"how long the grant is valid from when it is redeemed": "赠金自兑换起的有效时长",
		"List coupons (operator)":                              "列出优惠码（运营方）",
		"COUPON":                                               "优惠码",
		"VALID FOR":                                            "有效时长",
		"Redeem a coupon for your account":                     "为您的账户兑换优惠码",
		"why it is given":                                      "发放原因",
		"idempotency key: giving it twice counts once":         "幂等键：重复发放只计一次",
		"List what the account was given for use":              "列出账户获得的赠金",
		"KIND":                   "种类",
		"EXPIRES":                "到期",
		"GRANT":                  "赠金",
		"SPENT":                  "已用",
		"LEFT":                   "剩余",
		"PAYS FOR":               "可支付",
		"everything":             "全部",
		"%s after the first use": "首次使用后 %s",
		"GRANTED":                "赠金",
		"GIVEN":                  "其他入账",
		"paid by grants":         "赠金抵扣",
	})
	maps.Copy(words, map[string][2]string{
		"coupon":    {"coupon", "优惠码"},
		"promotion": {"promotion", "促销"},
	})
	maps.Copy(zhCodes, map[string]string{
		"coupon_not_found": "没有这个优惠码",
		"coupon_unusable":  "该优惠码已用完或已过期",
		"coupon_exists":    "已有同名优惠码",
		"coupon_share":     "按比例的优惠码须写明最多减多少（upto=）",
		"invalid_coupon":   "优惠码的写法不正确",
		"invalid_grant":    "赠金的参数不正确",
		"trial_given":      "该账户已用过试用",
	})
}
