package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Run a command on all nodes of a cluster; exits with the code of the rank that fails": "在集群的全部节点上运行命令；以失败进程的退出码结束",
		"Each node runs the command once for each of its GPUs, with RANK, WORLD_SIZE, MASTER_ADDR and the like set; torchrun, which starts processes itself, wants --procs-per-node 1. What all ranks print comes as one stream, each line with its rank before it. When one fails, the others are told and ended.": "每个节点按 GPU 数各运行一次命令，并设置 RANK、WORLD_SIZE、MASTER_ADDR 等变量；torchrun 会自行启动进程，请用 --procs-per-node 1。全部进程的输出合为一个流，每行前面是进程序号。一个失败时，其余会得到通知并结束。",
		"Run %s is %s; see what it prints with: suanli cluster logs %s": "任务 %s：%s；查看输出：suanli cluster logs %s",
		"Run %s: %s: %s": "任务 %s：%s：%s",
		"Run %s is %s":   "任务 %s：%s",
		"cluster to run it on (default: your only one)":                        "在哪个集群上运行（默认：唯一的集群）",
		"processes on each node (default: one for each GPU)":                   "每个节点的进程数（默认每个 GPU 一个）",
		"when a rank fails: fail, restart or replace (default: the cluster's)": "进程失败时：fail、restart 或 replace（默认用集群的）",
		"how often all ranks begin again at most":                              "全部进程最多重新开始几次",
		"end the cluster when the run is over, however it ends":                "任务结束后（无论成败）结束集群",
		"you have %d clusters; name one with --cluster":                        "有 %d 个集群，请用 --cluster 指定一个",
		"What all ranks of a run print, in one stream":                         "任务全部进程的输出，合为一个流",
		"List the runs of a cluster":                                           "列出集群上的任务",
		"End a run; its cluster stays":                                         "结束任务，保留集群",
		"RUN":                                                                  "任务",
		"ATTEMPT":                                                              "第几次",
		"Measure the network between a cluster's nodes by an all-reduce":       "用 all-reduce 测量集群节点间的网络",
		"All nodes sum a vector in a ring over the private network, as training does. What a node could carry is told as NCCL's tests reckon it (bus bandwidth).": "全部节点像训练那样通过专用网络以环形方式对一个向量求和，按 NCCL 测试的方法给出总线带宽。",
		"the check did not end well: %s\n%s": "检查未成功：%s\n%s",
		"BUS BANDWIDTH":                      "总线带宽",
		"LATENCY":                            "延迟",
		"CORRECT":                            "结果正确",
		"size of the vector, in MiB":         "向量大小，单位 MiB",
		"how often; the fastest counts":      "测几次，取最快的一次",
	})
	maps.Copy(zhCodes, map[string]string{
		"run_not_found": "没有这个任务",
		"invalid_run":   "任务的要求不正确",
		"cluster_busy":  "集群上已有任务在运行",
	})
	maps.Copy(words, map[string][2]string{
		"run_waiting":   {"waiting", "等待中"},
		"run_running":   {"running", "运行中"},
		"run_halting":   {"halting", "停止中"},
		"run_succeeded": {"succeeded", "成功"},
		"run_failed":    {"failed", "失败"},
		"run_stopped":   {"stopped", "已停止"},
	})
}
