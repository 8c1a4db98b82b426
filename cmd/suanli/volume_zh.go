package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Keep data that outlives leases": "保存比租约更长久的数据",
		"List your volumes":              "列出存储卷",
		"volumes cannot be named for the spot market yet: rent, stop the lease, and then suanli volume attach": "竞价租约暂不能在租用时指定存储卷：请先租用并停止租约，再执行 suanli volume attach",
		"Why: %s (%s)":                           "原因：%s（%s）",
		"SIZE":                                   "大小",
		"Show a volume and who has it":           "查看存储卷及其使用者",
		"Remove a volume with all that is in it": "删除存储卷及其全部内容",
		"Volume %s (%s) is removed, and costs nothing any more": "存储卷 %s（%s）已删除，不再计费",
		"Volume %s (%s): %s":         "存储卷 %s（%s）：%s",
		"%d GiB on host %s, %s/%s%s": "%d GiB，位于主机 %s，%s/%s%s",
		"A GiB costs %s %s a month, the whole of it %s, in use or not":         "每 GiB 每月 %s %s，整卷 %s，无论是否在用",
		"Lease %s reads it at %s":                                              "租约 %s 以只读方式挂载于 %s",
		"Lease %s has it at %s":                                                "租约 %s 挂载于 %s",
		"Make a volume on the host of an offer or a lease":                     "在报价或租约所在主机上创建存储卷",
		"give one of --host and --lease":                                       "--host 与 --lease 只能给出一个",
		"nothing on the market has so much disk; ask for less, or name a host": "市场上没有这么大的磁盘；请减小容量，或指定主机",
		"size in GiB": "大小（GiB）",
		"host to keep it on (default: that of the cheapest offer with room)":                       "存放的主机（默认：有空间的最便宜报价所在主机）",
		"keep it on the host of this lease":                                                        "存放在该租约所在的主机上",
		"the most that a GiB may cost a month":                                                     "每 GiB 每月最高价格",
		"volume %s is %s: %s (%s)":                                                                 "存储卷 %s %s：%s（%s）",
		"Give a volume to a lease that is stopped":                                                 "把存储卷挂给已停止的租约",
		"It is mounted when the lease starts: suanli start %s":                                     "租约启动时挂载：suanli start %s",
		"where it is inside of the instance":                                                       "在实例内的路径",
		"the instance cannot write to it":                                                          "实例只能读取",
		"Take a volume from a lease that is stopped":                                               "从已停止的租约上取下存储卷",
		"also from a lease that is over, before its host has confirmed that nothing is left of it": "也可从已结束的租约上取下，即使其主机尚未确认已清理干净",
		"--volume %q: want NAME:/path, or NAME:/path:ro":                                           "--volume %q：应为 名称:/路径 或 名称:/路径:ro",
		"the volumes are on different hosts, so that no lease can have all of them":                "这些存储卷位于不同主机，没有租约能同时使用",
		"a volume and where it is mounted, NAME:/path[:ro] (repeatable)":                           "存储卷及挂载路径，名称:/路径[:ro]（可重复）",
	})
	maps.Copy(words, map[string][2]string{
		"volume_creating":  {"creating", "创建中"},
		"volume_available": {"available", "可用"},
		"volume_deleting":  {"deleting", "删除中"},
		"volume_deleted":   {"deleted", "已删除"},
		"volume_lost":      {"lost", "已丢失"},
	})
	maps.Copy(zhCodes, map[string]string{
		"volume_not_found":    "本账户中没有该存储卷",
		"volume_exists":       "已有同名的存储卷",
		"volume_in_use":       "存储卷正在被租约使用，请先取下",
		"volume_state":        "存储卷在当前状态下不能这样操作",
		"volume_elsewhere":    "存储卷在另一台主机上；请租用那台主机的报价",
		"volume_attached":     "该租约已有此存储卷，或该路径已被占用",
		"volume_mounted":      "存储卷正挂载在该租约中，请先停止或结束租约",
		"invalid_volume_size": "存储卷大小不可用",
		"invalid_mount_path":  "不能挂载在该路径",
		"too_many_volumes":    "一个租约的存储卷过多",
		"duplicate_volume":    "每个存储卷、每个路径只能给出一次",
		"missing_lease":       "请给出租约的标识或名称",
		"quota_volumes":       "存储卷数量已达账户上限",
	})
}
