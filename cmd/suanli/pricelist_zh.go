package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Prices that the operator gives accounts": "运营方给账户的专属价格",
		"PRICE LIST":                   "价目表",
		"never":                        "永不",
		"PRICES":                       "价格",
		"ACCOUNTS":                     "账户",
		"Make a price list (operator)": "创建价目表（运营方）",
		"List price lists and the accounts that have them (operator)":    "列出价目表及使用它们的账户（运营方）",
		"List the price lists that your account has":                     "列出您的账户拥有的价目表",
		"Give an account a price list (operator)":                        "将价目表分配给账户（运营方）",
		"Take a price list from an account (operator)":                   "收回账户的价目表（运营方）",
		"what its prices are in: CNY or USD":                             "价格的货币：CNY 或 USD",
		"when it is over, such as 2027-01-01T00:00:00Z (default: never)": "失效时间，例如 2027-01-01T00:00:00Z（默认永不失效）",
		"A price is METER=12.5%, for a share off the listed price, or METER=PRICE for another in its place (of compute: for each GPU and hour), with MODEL: before it for one GPU model only. What is taken off is the platform's to bear: providers are paid by what they listed. A price list is for plans on demand.": "价格写作“计费项=12.5%”（在挂牌价上减去该比例），或“计费项=单价”（取代挂牌价；compute 为每张 GPU 每小时），前面加“型号:”则只适用于该 GPU 型号。减去的部分由平台承担：提供方仍按挂牌价获得收入。价目表只用于按需计费。",
		"Price list %s is made (%s); `suanli pricelist assign` gives it to an account":                                    "已创建价目表 %s（%s）；用 `suanli pricelist assign` 分配给账户",
		"Quotes for the account are made by the price list %s from now on, while it holds; what it rents keeps its price": "自现在起，在价目表 %s 有效期内该账户的报价均按其计算；已租用的保持原价",
		"Account %s pays by the listed prices from now on; what it rents keeps its price":                                 "自现在起账户 %s 按挂牌价计费；已租用的保持原价",
		"By your price list %s: %s %s instead of %s.":                                                                     "按您的价目表 %s：%s %s，挂牌价 %s。",
	})
	maps.Copy(zhCodes, map[string]string{
		"invalid_price_list":   "价目表的内容不正确",
		"price_list_exists":    "已有同名价目表",
		"price_list_not_found": "没有这个价目表，或该账户没有它",
		"price_list_over":      "价目表已失效",
		"price_list_overlap":   "该账户在同一时间已有另一个价目表",
		"price_frozen":         "该租约的价格不是挂牌价，不会改变",
		"gpu_model_not_found":  "没有这个 GPU 型号",
	})
}
