package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Make an account of your own on a cloud, and sign in to it":              "在某个云上注册自己的账户并登录",
		"A mail was sent to %s. If it holds a code, enter it within 15 minutes.": "已向 %s 发送邮件。如邮件中有验证码，请在 15 分钟内输入。",
		"Code: ": "验证码：",
		"from the mail (sent and asked for if left out)":            "邮件中的验证码（省略时会发送并询问）",
		"of the account; the e-mail address if left out":            "账户名称；省略时为电子邮箱",
		"Let an address sign up, and tell it so by mail (operator)": "允许某邮箱注册，并以邮件告知（运营方）",
		"%s is invited until %s":                                    "已邀请 %s，有效期至 %s",
		"List who is invited (operator)":                            "列出邀请（运营方）",
		"Take an invitation back (operator)":                        "撤回邀请（运营方）",
		"%s is not invited any more":                                "已撤回对 %s 的邀请",
		"E-MAIL":                                                    "电子邮箱",
		"USED AT":                                                   "已使用",
	})
	maps.Copy(zhCodes, map[string]string{
		"sign_up_closed":       "此云不开放注册",
		"sign_up_throttled":    "来自该网络的注册尝试过多",
		"invitation_not_found": "没有这个邀请",
		"passkeys_off":         "此云没有可用于通行密钥的域名",
		"passkey_invalid":      "通行密钥未被接受",
		"passkey_required":     "该用户仅用通行密钥登录",
		"passkey_exists":       "该通行密钥已添加",
		"passkey_limit":        "通行密钥数量已达上限",
		"passkey_needed":       "您还没有通行密钥",
		"passkey_not_found":    "您没有这个通行密钥",
		"last_passkey":         "这是您最后一个通行密钥",
	})
}
