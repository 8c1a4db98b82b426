package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Say where a request would go now, or why nowhere and what would fit": "说明一个请求现在会放到哪里，或为何放不下、怎样才放得下",
		"Say where a request would go now, or why nowhere and what would fit.\n\nAll hosts on the market are looked at and nothing is reserved. Each host that does not hold the request is counted under the first reason that rules it out. Amounts are for one node.": "说明一个请求现在会放到哪里，或为何放不下、怎样才放得下。\n\n会查看市场上的所有主机，不做任何预留。放不下的主机各计入排除它的第一个原因。各数量均为每个节点的数量。",
		"It fits now: %d of %d hosts hold a node of it.":         "现在放得下：放得下一个节点的主机有 %d 台，共查看 %d 台。",
		"It does not fit now: %d of %d hosts hold a node of it.": "现在放不下：放得下一个节点的主机有 %d 台，共查看 %d 台。",
		"It would go to %s.":                      "会放到 %s。",
		"It would fit with %s: %d instead of %d.": "如果改变“%s”就放得下：改为 %d（原为 %d）。",
		"It would fit with %s: %s.":               "如果改变“%s”就放得下：%s。",
		"HOSTS":                                   "主机数",
		"REFUSED FOR":                             "原因",
		"WANTED":                                  "需要",
		"MOST FREE":                               "最多空闲",
		"different hosts, each with the same; all or none": "不同的主机数，每台配置相同；全部满足或全不满足",
		"GPUs on each node":           "每个节点的 GPU 数",
		"GPU model; any if absent":    "GPU 型号；不填则不限",
		"CPUs on each node":           "每个节点的 CPU 核数",
		"memory on each node, in MiB": "每个节点的内存，单位 MiB",
		"disk on each node, in GiB":   "每个节点的磁盘，单位 GiB",
		"region; any if absent":       "地域；不填则不限",
		"zone; any if absent":         "可用区；不填则不限",
		"what all nodes must share: region, zone, spine, leaf or rack": "所有节点必须同在的范围：region、zone、spine、leaf 或 rack",
		"of simulated GPUs":              "针对模拟 GPU",
		"nothing could hold this":        "任何主机都无法满足",
		"the region":                     "地域",
		"the zone":                       "可用区",
		"labels":                         "标签",
		"something to keep away from":    "需要避开的实例",
		"the GPU model":                  "GPU 型号",
		"GPUs free":                      "空闲 GPU",
		"GPUs held for others":           "为他人保留的 GPU",
		"whole GPUs kept for whole ones": "为整卡请求保留的整卡",
		"CPU (thousandths)":              "CPU（千分之一核）",
		"memory (MiB)":                   "内存（MiB）",
		"disk (MiB)":                     "磁盘（MiB）",
		"network (Mbit/s)":               "网络（Mbit/s）",
		"ports":                          "端口",
		"nodes together":                 "能放在一起的节点",
	})
}
