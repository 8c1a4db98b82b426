package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"if nothing is free, wait for this long in the queue, such as 6h, with --gpu-model and --max-per-hour":              "若没有空闲，在队列中等待这么久（例如 6h），须同时给出 --gpu-model 和 --max-per-hour",
		"with --queue: the most that an hour of all of it may cost when there is room":                                      "配合 --queue：有空位时全部资源每小时最多花费",
		"with --queue: -10 to 10, the larger first among your own requests":                                                 "配合 --queue：-10 到 10，大者在您自己的请求中优先",
		"with --queue: only in this region":                                                                                 "配合 --queue：仅限此地域",
		"with --queue: simulated GPUs":                                                                                      "配合 --queue：模拟 GPU",
		"a bid waits by itself until it wins; leave out --queue":                                                            "竞价本身会等到胜出为止；请去掉 --queue",
		"--queue wants --gpu-model and --max-per-hour, and neither an offer nor --where: suanli search shows what there is": "--queue 需要 --gpu-model 和 --max-per-hour，且不能指定资源或 --where：suanli search 可查看现有资源",
		"what waits in the queue is rented on demand; leave out --plan":                                                     "队列中等待的请求按量计费；请去掉 --plan",
		"a volume is on one host, and what waits goes to any; attach it to the lease afterwards":                            "数据卷位于一台主机上，而等待的请求可能去任何主机；请事后再挂载",
		"with --queue say how long it runs, with --stop-in, and not when it stops":                                          "使用 --queue 时请用 --stop-in 说明运行多久，而不是何时停止",
		"Request %s (%s): %d × %s%s for at most %s %s an hour":                                                              "请求 %s（%s）：%d × %s%s，每小时最多 %s %s",
		"It waits until %s, and costs nothing meanwhile. See: suanli queue show %s":                                         "它将等到 %s，期间不收费。查看：suanli queue show %s",
		"no longer watching: the request waits on; see: suanli queue show %s":                                               "不再跟踪：请求仍在等待；查看：suanli queue show %s",
		"request %s is %s: %s (%s)":                                                                                         "请求 %s 为%s：%s（%s）",
		"Requests that wait until there is room":                                                                            "等待空位的请求",
		"What is rented with --queue waits here while nothing is free, and costs nothing. It becomes a lease as soon as a host has room, at the price of that moment, if that is not above what you said.": "用 --queue 租用时，没有空闲就在这里等待，不收费。一旦有主机空出，即按当时的价格成为租约，前提是不高于您所说的上限。",
		"List requests that wait":        "列出等待中的请求",
		"AT MOST PER HOUR":               "每小时上限",
		"PRIORITY":                       "优先级",
		"EXPIRES":                        "到期",
		"those that no longer wait, too": "包括不再等待的",
		"Show a request, its turn and what is in its way": "查看请求、排位及阻碍",
		"TURN":                          "排位",
		"RUNS AT MOST":                  "最长运行",
		"Withdraw a request that waits": "撤回等待中的请求",
		"Request %s is %s":              "请求 %s：%s",
		"Request %s has become a lease": "请求 %s 已成为租约",
		"Request %s has waited in vain, and is over":             "请求 %s 未等到空位，已到期",
		"Request %s can never become a lease as it is: %s":       "请求 %s 无法成为租约：%s",
		"There is room for request %s, and it is held back (%s)": "请求 %s 已有空位，但被搁置（%s）",
	})
	maps.Copy(zhCodes, map[string]string{
		"waiting_request_not_found": "没有这个等待中的请求",
		"waiting_request_state":     "该请求当前的状态不允许此操作",
		"waiting_request_ambiguous": "有多个等待中的请求使用这个名称，请用编号",
		"waiting_request_model":     "这里没有此型号的 GPU",
		"invalid_waiting_request":   "等待请求的内容不正确",
		"quota_waiting_requests":    "等待中的请求已达上限，请先撤回一个",
		"invalid_volumes":           "等待中的请求不能指定数据卷，请事后再挂载",
	})
	maps.Copy(words, map[string][2]string{
		"request_waiting":   {"waiting", "等待中"},
		"request_started":   {"started", "已启动"},
		"request_cancelled": {"withdrawn", "已撤回"},
		"request_expired":   {"expired", "已到期"},
		"request_failed":    {"failed", "失败"},
	})
	maps.Copy(reasons, map[string][2]string{
		"behind_others":        {"the room is kept for a request before it", "空位留给排在前面的请求"},
		"price_above_max":      {"it costs more now than it pays", "当前价格高于上限"},
		"no_such_host":         {"no host lets this, free or not", "没有主机出租这样的资源"},
		"quota_gpus":           {"the account has as many GPUs as it may", "账户的 GPU 已达配额"},
		"insufficient_balance": {"the money does not suffice", "余额不足"},
	})
}
