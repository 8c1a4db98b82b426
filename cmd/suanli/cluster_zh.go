package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"how many nodes, each on a host of its own": "节点数，每个节点占用一台不同的主机",
		"how many GPUs each node has":               "每个节点的 GPU 数",
		"GPU model of all nodes":                    "所有节点的 GPU 型号",
		"nodes in one zone, in one rack if there is room, on hosts with 10 Gbit/s or more": "节点位于同一可用区，尽量在同一机架，主机网络不低于 10 Gbit/s",
		"disk of each node in GiB (default: the template's)":                               "每个节点的磁盘，单位 GiB（默认用模板的）",
		"Clusters: nodes that start together or not at all, with a network of their own":   "集群：全部节点一起启动或都不启动，有自己的专用网络",
		"List your clusters":       "列出集群",
		"NODES":                    "节点",
		"NODE":                     "节点",
		"RACK":                     "机架",
		"PEERS":                    "互联",
		"POLICY":                   "策略",
		"also those that are over": "包括已结束的",
		"What a cluster costs, and on which hosts it would be":                                                                                "集群的价格及所在主机",
		"%d × %d × %s%s: %s %s an hour while all nodes run, and nothing before":                                                               "%d × %d × %s%s：全部节点运行后每小时 %s %s，之前不收费",
		"Rent a cluster: quote, accept all nodes at once, wait until all run":                                                                 "租用集群：报价、一次接受全部节点、等待全部运行",
		"Every node runs, or none is paid for: if not all nodes run and reach each other in time, all are given back and nothing is charged.": "要么全部节点运行，要么一个都不收费：若未能按时全部运行并互通，则全部退回，不收任何费用。",
		"Cluster %s (%s) is %s":              "集群 %s（%s）：%s",
		"Cluster %s is %s":                   "集群 %s：%s",
		"cluster %s is %s: %s (%s)":          "集群 %s 为%s：%s（%s）",
		"Enter a node with: suanli ssh %s-0": "进入节点：suanli ssh %s-0",
		"name of the cluster":                "集群名称",
		"when a node is lost or a rank fails: fail (default), restart or replace":                                                           "节点丢失或进程失败时：fail（默认，结束）、restart（重新开始）或 replace（替换节点）",
		"give all nodes back if not all run within this time (default: 10m)":                                                                "超过该时间未全部运行则全部退回（默认 10m）",
		"look for hosts again for this time, if there are none now, or a node does not start":                                               "若现在没有主机或有节点未能启动，在该时间内继续寻找主机",
		"the most that an hour of all nodes may cost, instead of the quote's price; it is needed with --look-for if there are no hosts now": "全部节点每小时最多花费，代替报价；现在没有主机而使用 --look-for 时必须给出",
		"%d of %d nodes run": "%d / %d 个节点已运行",
		"Show a cluster, its nodes and what happened to it": "查看集群、节点和经过",
		"WHY": "原因",
		"End a cluster: all of its nodes, with their disks": "结束集群：全部节点及其磁盘",
		"wait until nothing is left of it":                  "等到全部清除",
	})
	maps.Copy(zhCodes, map[string]string{
		"cluster_not_found":  "没有这个集群",
		"cluster_no_hosts":   "没有足够的主机组成集群",
		"cluster_name_taken": "已有同名的集群",
		"cluster_state":      "集群当前的状态不允许此操作",
		"invalid_cluster":    "集群的要求不正确",
	})
	maps.Copy(words, map[string][2]string{
		"cluster_queued":    {"queued", "排队中"},
		"cluster_forming":   {"forming", "组建中"},
		"cluster_running":   {"running", "运行中"},
		"cluster_repairing": {"repairing", "修复中"},
		"cluster_ending":    {"ending", "结束中"},
		"cluster_failing":   {"failing", "失败，正在释放"},
		"cluster_ended":     {"ended", "已结束"},
		"cluster_failed":    {"failed", "失败"},

		"cluster_event_place":    {"placed", "已安排主机"},
		"cluster_event_complete": {"complete", "全部就绪"},
		"cluster_event_break":    {"broke", "启动失败"},
		"cluster_event_lose":     {"node lost", "节点丢失"},
		"cluster_event_replace":  {"node replaced", "替换节点"},
		"cluster_event_spoil":    {"spoiled", "无法继续"},
		"cluster_event_give_up":  {"given up", "放弃"},
		"cluster_event_end":      {"end", "结束"},
		"cluster_event_released": {"released", "已全部释放"},
		"cluster_event_retry":    {"retry", "重新寻找主机"},

		"policy_fail":    {"fail", "失败即结束"},
		"policy_restart": {"restart", "重新开始"},
		"policy_replace": {"replace", "替换节点"},

		"gang_complete":    {"gang_complete", "集群全部就绪"},
		"node_failed":      {"a node could not start", "有节点未能启动"},
		"node_lost":        {"a node was lost", "有节点丢失"},
		"start_timeout":    {"not all nodes were there in time", "节点未能按时全部就绪"},
		"not_replaced":     {"the lost node could not be replaced", "丢失的节点未能替换"},
		"cluster_no_hosts": {"no hosts for it", "没有足够的主机"},
		"price_moved":      {"it costs more by now", "价格已上涨"},
	})
}
