package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Try the cloud on its operator's account, once":                                   "试用：由运营方承担费用，每个账户一次",
		"Start your account's trial":                                                      "开始您账户的试用",
		"A code was sent to you by mail. Run suanli trial verify CODE, then start again.": "验证码已发送到您的邮箱。请运行 suanli trial verify CODE，然后重新开始试用。",
		"It pays before your balance, for a set time from your first use. It needs an e-mail address that is proven to be yours.": "试用赠金先于余额支付，自首次使用起在限定时间内有效。需先验证您的电子邮箱。",
		"Show what a trial is, and what your account has of it":                                                                   "查看试用的内容及您账户的试用情况",
		"Prove your e-mail address by the code that was sent to it":                                                               "用收到的验证码验证您的电子邮箱",
		"Verify the contact of an account by hand (operator)":                                                                     "人工确认某账户的联系方式（运营方）",
		"This cloud has no trials.":                                                    "此云不提供试用。",
		"A trial is worth %s %s, for %s from its first use.":                           "试用价值 %s %s，自首次使用起有效 %s。",
		"With nothing else, %d GPUs at once, on demand, and not on hosts of your own.": "仅有试用时，最多同时使用 %d 个 GPU，仅限按量，且不能用于自己的主机。",
		"Instances reach the ports %s outside only.":                                   "实例只能访问外部的端口 %s。",
		"Your contact is not verified yet.":                                            "您的联系方式尚未验证。",
		"Your contact is verified. Run suanli trial start.":                            "您的联系方式已验证。请运行 suanli trial start。",
		"Started: %s %s are left; the time begins with your first use.":                "已开始：剩余 %s %s；有效期自首次使用起算。",
		"Started: %s %s are left until %s. Then what it pays for stops.":               "已开始：剩余 %s %s，至 %s 为止，届时由其支付的用量即停止。",
	})
	maps.Copy(zhCodes, map[string]string{
		"trial_off":             "此云不提供试用",
		"trial_plan":            "试用只支付按量租约",
		"trial_own_host":        "试用不能用于自己的主机",
		"trial_gpus":            "试用账户同时使用的 GPU 数已达上限",
		"trial_contact":         "该联系方式已用过试用",
		"trial_device":          "该设备已用过试用",
		"trial_device_unknown":  "设备标识不是此云签发的",
		"trial_network":         "该网络近 30 天的试用次数已达上限",
		"trial_network_unknown": "无法判断请求来自哪个网络",
		"contact_unverified":    "试用需要已验证的联系方式",
		"contact_verified":      "该联系方式已经验证",
		"code_wrong":            "验证码不正确、已过期或尝试次数过多",
		"code_sent":             "刚刚已发送过验证码",
		"code_limit":            "一天内发送的验证码过多",
		"mail_off":              "此云不发送邮件",
		"mail_failed":           "邮件发送失败",
	})
}
