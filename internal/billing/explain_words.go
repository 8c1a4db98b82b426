package billing

import (
	"strings"
)

// Words is the step as a sentence, in Chinese or in English.
func (s Step) Words(chinese bool) string {
	text, ok := sentences[s.Code]
	if !ok {
		return s.Code
	}
	sentence := text[language(chinese)]
	pairs := make([]string, 0, 2*len(s.Values))
	for k, v := range s.Values {
		if w, ok := terms[v]; ok && strings.HasPrefix(v, "@") {
			v = w[language(chinese)]
		}
		pairs = append(pairs, "{"+k+"}", v)
	}
	return strings.NewReplacer(pairs...).Replace(sentence)
}

func language(chinese bool) int {
	if chinese {
		return 1
	}
	return 0
}

// explained reports whether there is a term.
func explained(term string) bool { _, ok := terms[term]; return ok }

// sentences are the steps of explanations by their codes: English, then Chinese.
// Values are in braces; one that begins with @ is one of the terms.
var sentences = map[string][2]string{
	"charge":    {"Charge {charge} of {amount} {currency} for {meter} of lease {lease}, posted {posted_at}.", "扣费 {charge}：租约 {lease} 的{meter}，{amount} {currency}，于 {posted_at} 入账。"},
	"simulated": {"The GPUs are simulated: there is no hardware.", "GPU 是模拟的，没有真实硬件。"},

	"quote_compute":  {"By the quote of {quoted_at} ({plan}) an hour costs {rate} {currency}; time counts by the {granularity}, and at least {minimum} s at each start.", "按 {quoted_at} 的报价（{plan}），每小时 {rate} {currency}；按{granularity}计时，每次启动至少计 {minimum} 秒。"},
	"quote_spot":     {"It is a spot lease: an hour costs what the market cleared at, at most the bid of {bid} {currency}.", "这是竞价租约：每小时按市场成交价计费，最高不超过出价 {bid} {currency}。"},
	"quote_change":   {"From {from} on the renter agreed to {rate} {currency} an hour.", "自 {from} 起，租户同意每小时 {rate} {currency}。"},
	"quote_exchange": {"The provider listed {listed} {from}. By the rate {rate_id} of {source}, in force since {since}, one {from} is {rate} {currency}: {converted} {currency}, rounded once, and frozen in the quote.", "提供方挂牌价为 {listed} {from}。按汇率 {rate_id}（来源 {source}，自 {since} 起生效），1 {from} 合 {rate} {currency}：{converted} {currency}，只舍入一次，并固定在报价中。"},
	"quote_less":     {"The listed price is {listed} {currency}. By the account's price list {list} ({id}) it is {off} % less: {own} {currency}, rounded once, and frozen in the quote.", "挂牌价为 {listed} {currency}。按账户的价目表 {list}（{id}）减 {off}%：{own} {currency}，只舍入一次，并固定在报价中。"},
	"quote_each":     {"The listed price is {listed} {currency}. By the account's price list {list} ({id}) each of the {gpus} GPUs costs {each} {currency}, together {own} {currency}, and the quote keeps it.", "挂牌价为 {listed} {currency}。按账户的价目表 {list}（{id}），{gpus} 张 GPU 每张 {each} {currency}，共 {own} {currency}，并固定在报价中。"},
	"quote_own":      {"The listed price is {listed} {currency}. By the account's price list {list} ({id}) it is {own} {currency}, and the quote keeps it.", "挂牌价为 {listed} {currency}。按账户的价目表 {list}（{id}）为 {own} {currency}，并固定在报价中。"},
	"quote_storage":  {"By the quote of {quoted_at} a GiB costs {rate} {currency} a month, and {gib} GiB were leased; a month is a calendar month in {zone}.", "按 {quoted_at} 的报价，每 GiB 每月 {rate} {currency}，租用 {gib} GiB；月份按 {zone} 的自然月计算。"},
	"quote_bytes":    {"By the quote of {quoted_at} a GB (1,000,000,000 bytes) costs {rate} {currency}.", "按 {quoted_at} 的报价，每 GB（1,000,000,000 字节）{rate} {currency}。"},

	"counted_until": {"When it was posted for use up to {to}, the instance had last been seen alive at {until} (to the second): nothing after it was charged.", "入账截至 {to} 时，实例最后一次确认存活于 {until}（精确到秒）：其后的时间未计费。"},
	"end_unknown":   {"That the run had ended was reported only after this was posted; it was counted until {until}, and a later correction gives back what was too much.", "运行结束的消息在本次入账之后才收到，因此计到 {until}；多计的部分由之后的更正退回。"},
	"items_before":  {"What was counted before is as it was: parts until {until}: {count}, which come to {sum} and leave {left} of rounding.", "之前已计的 {count} 项（截至 {until}）没有变化，合计 {sum}，舍入余量 {left}。"},
	"run":           {"It ran from {from} ({from_source}) to {to} ({to_source}): {used} s, which counts as {charged} s ({why}). {charged} s × {rate} {currency} ÷ {per} s is exactly {exact}; with {carried} carried over from before it is {amount}, and {left} is carried on.", "自 {from}（{from_source}）运行至 {to}（{to_source}）：{used} 秒，按 {charged} 秒计（{why}）。{charged} 秒 × {rate} {currency} ÷ {per} 秒，精确值为 {exact}；加上之前的舍入余量 {carried}，计 {amount}，余 {left} 转入下一项。"},
	"run_waived":    {"It ran from {from} ({from_source}) to {to} ({to_source}): {used} s, which cost nothing, as the platform ended it in its first {free} s.", "自 {from}（{from_source}）运行至 {to}（{to_source}）：{used} 秒，平台在开始后 {free} 秒内将其中断，不计费。"},
	"run_covered":   {"It ran from {from} ({from_source}) to {to} ({to_source}): {used} s, which are paid for in advance and cost nothing more.", "自 {from}（{from_source}）运行至 {to}（{to_source}）：{used} 秒，已预付，不再计费。"},
	"month":         {"It was kept from {from} ({from_source}) to {to} ({to_source}): {used} GiB·s. {charged} × {rate} {currency} ÷ the month's {per} s is exactly {exact}, rounded to {amount} (a month is rounded once).", "自 {from}（{from_source}）保留至 {to}（{to_source}）：{used} GiB·秒。{charged} × {rate} {currency} ÷ 当月 {per} 秒，精确值为 {exact}，舍入为 {amount}（每月只舍入一次）。"},
	"hours":         {"It was kept from {from} ({from_source}) to {to} ({to_source}): {used} s in all. {charged} s × {rate} {currency} ÷ {per} s is exactly {exact}, rounded to {amount}.", "自 {from}（{from_source}）保留至 {to}（{to_source}）：共 {used} 秒。{charged} 秒 × {rate} {currency} ÷ {per} 秒，精确值为 {exact}，舍入为 {amount}。"},
	"bytes":         {"Since the lease began it had moved {used} bytes, as its host counted. {charged} × {rate} {currency} ÷ {per} bytes is exactly {exact}, rounded to {amount} (all bytes together are rounded once).", "自租约开始，按主机计数共传输 {used} 字节。{charged} × {rate} {currency} ÷ {per} 字节，精确值为 {exact}，舍入为 {amount}（全部字节只舍入一次）。"},

	"quote_reserved":   {"By what was agreed at {quoted_at} the reservation costs {rate} {currency} an hour for all of its GPUs, whether they are used or not.", "按 {quoted_at} 的约定，该预留的全部 GPU 每小时共 {rate} {currency}，无论是否使用。"},
	"run_held":         {"Its GPUs were held from {from} to {to}: {used} s. {charged} s × {rate} {currency} ÷ {per} s is exactly {exact}; with {carried} carried over from before it is {amount}, and {left} is carried on.", "其 GPU 自 {from} 保留至 {to}：{used} 秒。{charged} 秒 × {rate} {currency} ÷ {per} 秒，精确值为 {exact}；加上之前的舍入余量 {carried}，计 {amount}，余 {left} 转入下一项。"},
	"run_reserved":     {"It ran from {from} to {to}: {used} s, which reservations pay for and which cost nothing more.", "自 {from} 运行至 {to}：{used} 秒，由预留支付，不再计费。"},
	"reserved_applied": {"When it was posted, reservations paid for {covered} s of it. They are applied again when more is known of an hour; what that changed is a later charge.", "入账时预留支付其中 {covered} 秒。得知某一小时的更多使用后会重新分摊预留；由此产生的差额列入之后的扣费。"},
	"reserved_upfront": {"Paid {payment} for the reservation of {gpus} × {model} from {from} until {until} ({hours} clock hours): {upfront} {currency}, beside {rate} {currency} an hour for each GPU; the discount is {discount} % off {list}.", "预留 {gpus} × {model}，{from} 至 {until}（{hours} 个整点小时），{payment}：{upfront} {currency}，另每张 GPU 每小时 {rate} {currency}；在 {list} 的基础上减 {discount}%。"},
	"reserved_lost":    {"By {by} the GPUs of the reservation had not been there for {seconds} s of its {total} s. That part of the {upfront} {currency} paid upfront is {back} {currency}; {before} of it had come back before.", "截至 {by}，预留的 {total} 秒中有 {seconds} 秒未能提供 GPU。预付的 {upfront} {currency} 中对应 {back} {currency}；此前已退回 {before}。"},
	"reserved_early":   {"The reservation was ended at {at}, to the end of the clock hour {end}. Its {count} hours cost {owed} {currency} at the price on demand of {list} (a discount is for the whole term, and never costs more than that); {due} {currency} was agreed for them, so the difference is {net} {currency}.", "预留于 {at} 提前结束，计至整点 {end}。这 {count} 小时按按需价 {list} 计为 {owed} {currency}（折扣针对整个期限，且不超过整个期限的费用）；原约定为 {due} {currency}，差额 {net} {currency}。"},
	"reserved_gone":    {"The GPUs of the reservation could not be had any more, and it ended at {end} without a loss: {back} {currency} of what was paid upfront is for time that was not delivered, and {before} of it had come back before.", "预留的 GPU 已无法提供，预留于 {end} 无损结束：预付款中 {back} {currency} 对应未提供的时间，此前已退回 {before}。"},
	"share":            {"The coupon {coupon} ({grant}) takes {share} % off: with this charge off {bases} {currency} of this meter of the lease, less the {before} that it took off before: {part} {currency} of {base}.", "优惠码 {coupon}（{grant}）减 {share}%：连同本次扣费，按该租约此计费项累计 {bases} {currency} 计算，再减去之前已减的 {before}：{base} 中减 {part} {currency}。"},
	"share_full":       {"It takes off {cap} {currency} at most, of which {left} was left.", "该优惠码最多减 {cap} {currency}，当时还剩 {left}。"},
	"share_back":       {"What is not due any more had the share of the coupon {coupon} ({grant}) in it, {share} %: of {less} {currency} {back} goes back to it.", "不再应付的部分中含优惠码 {coupon}（{grant}）的 {share}%：{less} {currency} 中有 {back} 退回该优惠码。"},
	"volume":           {"In the month from {from} to {to} the account paid {total} {currency} for compute on demand and on the spot market, beside what grants paid. By the volume discount {tiers}:", "在 {from} 至 {to} 的账期内，账户为按需与竞价算力支付 {total} {currency}（不含赠金支付部分）。按用量折扣 {tiers}："},
	"volume_tier":      {"{off} % of what lies beyond {from}: of {within} {currency}.", "超过 {from} 的部分减 {off}%：{within} {currency}。"},
	"volume_part":      {"Together that is {off} {currency}, rounded once. This lease has {base} {currency} of the month's compute, and so {part} {currency} of the discount, which went back to the balance.", "合计 {off} {currency}，只舍入一次。本租约占当月算力费用 {base} {currency}，因此得折扣 {part} {currency}，已退回余额。"},
	"of_volume":        {"It is the part of lease {lease} of a month's volume discount; explain charge {charge} to see why.", "它是租约 {lease} 在当月用量折扣中的部分；查看扣费 {charge} 的说明可知缘由。"},
	"granted":          {"Grants paid {sum} {currency} of this charge, and {rest} was left to pay.", "赠金支付本次扣费中的 {sum} {currency}，余 {rest} 另付。"},
	"granted_back":     {"{back} {currency} of it went back to the grants that had paid for it.", "其中 {back} {currency} 退回原先支付的赠金。"},

	"sum":                {"All of it comes to {sum} {currency} by then.", "至此合计 {sum} {currency}。"},
	"charged_before":     {"{before} {currency} of it had been charged before (charges: {count}).", "其中 {before} {currency} 已在之前的 {count} 次扣费中收取。"},
	"difference_at_once": {"In the same moment more was learned, and {count} further charges of {further} {currency} followed; this charge is the rest: {sum} − {before} − {further} = {amount} {currency}.", "同一时刻又获知了更多信息，随后另有 {count} 笔扣费，共 {further} {currency}；本笔扣费为其余部分：{sum} − {before} − {further} = {amount} {currency}。"},
	"difference":         {"This charge is the difference: {sum} − {before} = {amount} {currency}.", "本次扣费为差额：{sum} − {before} = {amount} {currency}。"},
	"difference_back":    {"It had cost less than was charged; the difference is given back: {sum} − {before} = {amount} {currency}.", "实际费用低于已收金额，差额退回：{sum} − {before} = {amount} {currency}。"},

	"prepaid_term":    {"{months} months in advance, from {from} until {until} (calendar months in {zone}): {months} × {per_month} {currency} less {discount} % is {price} {currency}, rounded once.", "预付 {months} 个月，{from} 至 {until}（按 {zone} 的自然月）：{months} × {per_month} {currency}，减 {discount}%，为 {price} {currency}，只舍入一次。"},
	"prepaid_renewal": {"{months} more months in advance, from {from} until {until} (calendar months in {zone}): {months} × {per_month} {currency} less {discount} % is {price} {currency}, rounded once.", "续费 {months} 个月，{from} 至 {until}（按 {zone} 的自然月）：{months} × {per_month} {currency}，减 {discount}%，为 {price} {currency}，只舍入一次。"},
	"prepaid_change":  {"The price of the rest of the term, from {from} until {until}, changed from {old_per_month} less {old_discount} % to {per_month} less {discount} % a month: {cost} {currency} at the new price less {credit} {currency} at the old one is {net} {currency}.", "租期剩余部分（{from} 至 {until}）的月价由 {old_per_month}（减 {old_discount}%）改为 {per_month}（减 {discount}%）：新价 {cost} {currency} 减旧价 {credit} {currency}，为 {net} {currency}。"},
	"prepaid_unused":  {"The instance never ran, so everything that was paid in advance is given back.", "实例从未运行，预付款全部退回。"},
	"prepaid_back":    {"The months were given up at {from}. Of the {paid} {currency} paid since {since}, {used} {currency} was used, at the price without discount (a discount is for the whole term); {back} {currency} is given back.", "于 {from} 放弃剩余月份。自 {since} 起支付的 {paid} {currency} 中，按无折扣价已用 {used} {currency}（折扣针对整个租期），退回 {back} {currency}。"},
	"prepaid_lost":    {"The host was lost at {from}: {back} {currency}, which was paid for the rest of the term until {until}, is given back.", "主机于 {from} 失效：为剩余租期（至 {until}）支付的 {back} {currency} 退回。"},

	"split":               {"Of it the provider earns {provider} and the cloud keeps {commission} ({share} % of all that the lease has cost, so far and with this charge, less what it had kept before).", "其中提供方得 {provider}，平台留 {commission}（按租约累计费用的 {share}% 计算，再减去之前已留的部分）。"},
	"quote_spot_exchange": {"Every price that the market cleared at later is in {from}, and is converted by the same rate {rate_id}, rounded once.", "之后每次市场出清价均以 {from} 计，并按同一汇率 {rate_id} 换算，只舍入一次。"},
	"split_listed":        {"By the prices that the provider listed it is {listed} {paid_in}, of which the provider earns {share} %: {earned} {paid_in} (all so far, less what it had earned before). The cloud keeps {commission} {currency}, which is what the account pays less the provider's {provider} {currency}.", "按提供方的挂牌价为 {listed} {paid_in}，提供方得 {share}%：{earned} {paid_in}（按累计计算，再减去之前已得的部分）。平台留 {commission} {currency}，即账户支付额减去提供方的 {provider} {currency}。"},
	"split_exchanged":     {"{provider} {currency} of it went to the cloud's exchange account, and {earned} {paid_in} from there to the provider.", "其中 {provider} {currency} 转入平台兑换账户，由该账户向提供方支付 {earned} {paid_in}。"},
	"split_wrong":         {"By the quote it would be {provider} and {commission}: the books are wrong. Tell the operator.", "按报价应为 {provider} 和 {commission}：账目有误，请联系运营方。"},
	"paid_together":       {"It was paid together with what else was charged of the lease at that moment ({count} charges): {sum} {currency}.", "与该租约同一时刻的其他扣费一起支付：{count} 笔，共 {sum} {currency}。"},
	"paid_from":           {"{sum} {currency} came from {source}.", "{sum} {currency} 来自{source}。"},
	"paid_back_to":        {"{sum} {currency} went back to {source}.", "{sum} {currency} 退回{source}。"},
	"paid_wrong":          {"The transfers come to {moved} {currency} and the charges to {owed}: the books are wrong. Tell the operator.", "转账合计 {moved} {currency}，扣费合计 {owed}：账目有误，请联系运营方。"},

	"booked_late":        {"It is for use up to {to}, whose month was closed when it was learned of; it counts at {booked}, on that month's invoice.", "它对应截至 {to} 的使用，得知时该月已结账；因此计入 {booked} 所在月份的账单。"},
	"invoice_to_come":    {"It will be on the invoice of its month, with taxes, when the month is closed.", "月份结账后，它将连同税费列入当月账单。"},
	"invoice_line":       {"It is on invoice {invoice}, in line {line}, which sums up the month: {sum} {currency}, shown as {shown}.", "它在账单 {invoice} 第 {line} 行，该行为当月合计：{sum} {currency}，显示为 {shown}。"},
	"invoice_correction": {"On invoice {invoice}, line {line} has what was learned after an earlier month was closed: {sum} {currency}, shown as {shown}.", "账单 {invoice} 第 {line} 行为以前账期结账后得知的部分：{sum} {currency}，显示为 {shown}。"},
	"tax_added":          {"{tax} at {rate} % is added: {sum} {currency}.", "另加 {tax}（{rate}%）：{sum} {currency}。"},
	"tax_included":       {"{tax} at {rate} % is in the price: {sum} {currency} of it.", "价格内含 {tax}（{rate}%）：其中 {sum} {currency}。"},
	"invoice_rounding":   {"Invoice {invoice} comes to {exact} {currency} exactly, and is rounded once to {subtotal} (by {rounding}); its total is {total}.", "账单 {invoice} 精确合计 {exact} {currency}，只舍入一次为 {subtotal}（差 {rounding}）；总额 {total}。"},
	"corrected":          {"Charge {charge}, posted {posted_at}, corrects what was charged up to then by {amount} {currency}.", "扣费 {charge}（{posted_at} 入账）对此前的扣费作了更正：{amount} {currency}。"},
	"credited":           {"Credit note {note} takes back {sum} {currency} of line {line}: {reason}", "贷记通知 {note} 从第 {line} 行退回 {sum} {currency}：{reason}"},

	"transfer":        {"Transfer {transfer} of {sum} {currency}, posted {posted_at}: {code}, from {from} to {to}, about {reference}.", "转账 {transfer}：{sum} {currency}，{posted_at} 入账；{code}，从{from}到{to}，事由 {reference}。"},
	"pays_charge":     {"It is a part of what paid charge {charge} of {amount} {currency} for {meter}; explain that to see why.", "它是支付扣费 {charge}（{meter}，{amount} {currency}）的一部分；查看该扣费的说明可知缘由。"},
	"of_note":         {"It is a part of credit note {note} on invoice {invoice}; explain that to see why.", "它是账单 {invoice} 的贷记通知 {note} 的一部分；查看该通知的说明可知缘由。"},
	"of_grant":        {"It is the grant {grant} ({kind}) of {cap} {currency}.", "它是赠金 {grant}（{kind}），{cap} {currency}。"},
	"grant_lost":      {"Of the grant {grant} ({kind}) of {cap} {currency}, {used} was used by {expired_at}, when it expired; {lost} was lost.", "赠金 {grant}（{kind}）共 {cap} {currency}，到期（{expired_at}）时已用 {used}，{lost} 失效。"},
	"grant_back_lost": {"A correction gave it back to a grant that had expired by then, so it was lost.", "更正将其退回时该赠金已到期，因此失效。"},
	"write_off":       {"It gives up what was owed of invoice {invoice} of {total} {currency}: {sum}; {rest} had been paid or credited.", "放弃账单 {invoice}（{total} {currency}）的欠款 {sum}；其余 {rest} 已支付或已贷记。"},
	"shortfall":       {"A bank or card company took money back that was not there any more; what was missing is debt, which is repaid from what is paid in next.", "银行或卡组织收回的款项已不在余额中；差额记为欠款，由之后的充值偿还。"},
	"taken_short":     {"{sum} {currency} of it was not in the balance any more and became debt.", "其中 {sum} {currency} 已不在余额中，转为欠款。"},
	"sla_promise":     {"In {month} the lease was available {availability} % of {counted} s ({down} s down). By the promise of the cloud that gives back {share} % of its charge of {charge} {currency}: {credit} {currency}.", "{month} 该租约在 {counted} 秒中的可用率为 {availability}%（中断 {down} 秒）。按平台承诺，退回其费用 {charge} {currency} 的 {share}%：{credit} {currency}。"},
	"sla_posted":      {"{before} {currency} of it had been credited before.", "其中 {before} {currency} 此前已退回。"},

	"note":           {"Credit note {note} of {total} {currency} on invoice {invoice}, issued {posted_at}: {reason}", "账单 {invoice} 的贷记通知 {note}，{total} {currency}，于 {posted_at} 开具：{reason}"},
	"note_line":      {"Of line {line} ({meter} of lease {lease}, shown as {shown}) it takes back {sum} {currency}; {before} had been taken back before.", "从第 {line} 行（租约 {lease} 的{meter}，显示为 {shown}）退回 {sum} {currency}；此前已退回 {before}。"},
	"note_tax_added": {"The {tax} of {rate} % on it comes back too: {sum} {currency}.", "其 {tax}（{rate}%）一并退回：{sum} {currency}。"},
	"note_total":     {"In all it takes back {total} {currency}.", "合计退回 {total} {currency}。"},
	"note_refunded":  {"It was paid out, and not kept as balance.", "已退款，未计入余额。"},

	"check_right": {"Computed again from what is stored, this comes to {recomputed} {currency}: exactly what was posted.", "按存储的数据重新计算为 {recomputed} {currency}，与入账金额完全一致。"},
	"check_wrong": {"Computed again from what is stored, this comes to {recomputed} {currency}, and {posted} was posted: they differ by {difference}. Tell the operator, who can run `suanli ledger verify`.", "按存储的数据重新计算为 {recomputed} {currency}，入账金额为 {posted}，相差 {difference}。请联系运营方运行 `suanli ledger verify`。"},
}

// terms are words within sentences: English, then Chinese.
var terms = map[string][2]string{
	"@compute": {"compute", "计算"}, "@storage": {"storage", "存储"}, "@egress": {"egress", "出站流量"}, "@ingress": {"ingress", "入站流量"},
	"@public_ip": {"public addresses", "公网地址"}, "@snapshot": {"snapshots", "快照"}, "@volume": {"idle volumes", "闲置卷"},
	"@on_demand": {"on demand", "按需"}, "@spot": {"spot", "竞价"}, "@reserved": {"reserved", "预留"}, "@monthly": {"months in advance", "包月"}, "@trial": {"trial", "试用"},
	"@second": {"second", "秒"}, "@minute": {"started minute", "分钟（不足一分钟按一分钟）"}, "@hour": {"started hour", "小时（不足一小时按一小时）"},

	"@upfront_none": {"nothing upfront", "不预付"}, "@upfront_partial": {"half upfront", "预付一半"}, "@upfront_all": {"all upfront", "全额预付"},
	"@grant_promotion": {"promotion", "推广"}, "@grant_trial": {"trial", "试用"}, "@grant_coupon": {"coupon", "优惠码"}, "@grant_volume_discount": {"volume discount", "用量折扣"}, "@code_volume_discount": {"a volume discount", "用量折扣"},
	"@pot_written_off": {"what nobody pays any more", "核销账户"},
	"@code_shortfall":  {"debt for money that was taken back", "款项被收回形成的欠款"}, "@code_write_off": {"what was owed, given up", "核销欠款"}, "@code_payout_return": {"a payout that came back", "退回的付款"},
	"@no_reason": {"no reason was written down", "未写明原因"},

	"@counts_exactly": {"by the second", "按秒"}, "@counts_resumed": {"it goes on after a break that was not the renter's, and is counted as one with the run before", "因非租户原因中断后继续，与前一次运行合并计时"},
	"@counts_minimum": {"the minimum at a start", "启动最短计时"}, "@counts_started_second": {"by the second", "按秒"},
	"@counts_started_minute": {"every started minute counts", "不足一分钟按一分钟"}, "@counts_started_hour": {"every started hour counts", "不足一小时按一小时"},

	"@source_host":     {"as its host reported", "主机上报"},
	"@source_received": {"when the report came: the host's time was in the future", "收到上报的时刻：主机上报的时间在未来"},
	"@source_clipped":  {"the reported time was earlier than what was known, and was clipped", "上报时间早于已知时间，已截断"},
	"@source_resumed":  {"it goes on after a break of the host's", "主机中断后继续"},
	"@source_alive":    {"the last sign of life then", "当时的最后存活信号"},
	"@source_settled":  {"the moment of the posting", "入账时刻"},
	"@source_evicted":  {"the platform ended it", "平台中断"},
	"@source_price":    {"a change of price or of what pays", "价格或付款方式变化"},
	"@source_month":    {"a month's boundary", "月份边界"}, "@source_first_run": {"the first run; nothing before it is charged", "首次运行；之前不计费"},
	"@source_limit_balance": {"the money ran out", "余额用尽"}, "@source_limit_spending_cap": {"the spending cap was reached", "达到消费上限"},
	"@source_limit_storage_grace": {"the time of grace was over", "宽限期结束"}, "@source_limit_term_over": {"the months in advance were over", "预付租期结束"},
	"@source_limit_requested": {"it had been asked to stop", "已请求停止"},

	"@pot_wallet": {"the balance", "余额"}, "@pot_hold": {"what was set aside for leases", "为租约预留的金额"},
	"@pot_receivable": {"what the account owes, as there was no money left", "欠款（当时已无余额）"}, "@pot_grant": {"grants", "赠金"}, "@pot_payable": {"the provider", "提供方"},
	"@pot_commission": {"the cloud's commission", "平台佣金"}, "@pot_deposits": {"where deposits come from", "充值来源"}, "@pot_rounding": {"rounding", "舍入账户"},
	"@pot_tax": {"tax that is owed to the state", "应缴税款"}, "@pot_promotions": {"the cloud's promotions", "平台赠金账户"},

	"@code_deposit": {"a deposit", "充值"}, "@code_hold": {"money set aside for leases", "为租约预留"}, "@code_release": {"money no longer set aside", "解除预留"},
	"@code_charge": {"a charge", "扣费"}, "@code_correction": {"a correction", "更正"}, "@code_repayment": {"debt paid from the balance", "以余额偿还欠款"},
	"@code_prepayment": {"a payment in advance", "预付款"}, "@code_prepayment_back": {"a payment in advance given back", "退回预付款"}, "@code_tax": {"tax of an invoice", "账单税费"},
	"@code_rounding": {"rounding of an invoice", "账单舍入"}, "@code_credit": {"a credit note", "贷记通知"}, "@code_paid_back": {"a refund", "退款"},
	"@code_grant": {"a grant", "赠金"}, "@code_grant_expired": {"what of a grant was not used", "未用完的赠金"}, "@code_sla_credit": {"a credit for missed availability", "可用率未达标的退款"},
	"@code_sla_clawback": {"what a provider gives back for missed availability", "可用率未达标时提供方退回的金额"}, "@code_penalty": {"a penalty", "罚金"}, "@code_payout": {"a payout to a provider", "向提供方付款"},
}
