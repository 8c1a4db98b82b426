package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Keep copies of volumes outside of their hosts": "在主机之外保存存储卷的副本",
		"Show a snapshot":   "查看快照",
		"Remove a snapshot": "删除快照",
		"Snapshot %s (%s) is removed, and costs nothing any more": "快照 %s（%s）已删除，不再计费",
		"Snapshot %s (%s): %s": "快照 %s（%s）：%s",
		"Of volume %s with %d GiB, %s stored, for hosts in %s%s": "来自存储卷 %s（%d GiB），已存储 %s，可用于 %s 的主机%s",
		"A stored GiB costs %s %s a month, the whole of it %s":   "已存储的每 GiB 每月 %s %s，整个快照 %s",
		"Copy a volume that no lease is running with":            "复制没有租约正在使用的存储卷",
		"return at once":             "立即返回",
		"snapshot %s is %s: %s (%s)": "快照 %s %s：%s（%s）",
		"List your snapshots":        "列出快照",
		"STORED":                     "已存储",
		"VOLUME":                     "存储卷",
		"CREATED":                    "创建时间",
		"only those of this volume":  "只列出该存储卷的快照",
		"Make a second volume with what is in one":                       "用一个存储卷的内容创建另一个存储卷",
		"host of its region to keep it on (default: that of the volume)": "存放的主机，须在同一区域（默认：原存储卷所在主机）",
		"size in GiB (default: that of the volume)":                      "大小（GiB，默认与原存储卷相同）",
		"Put a volume on another host of its region":                     "把存储卷移到同一区域的另一台主机",
		"give the host to move it to: --host":                            "请给出目标主机：--host",
		"host to move it to":                                             "目标主机",
		"Make a volume larger":                                           "扩大存储卷",
		"a size of %q: want GiB, such as 400":                            "大小 %q：应为 GiB 数，例如 400",
		"Have a volume copied every so many hours":                       "每隔若干小时备份存储卷",
		"hours from one backup to the next":                              "两次备份之间的小时数",
		"how many of the last backups are kept":                          "保留最近多少个备份",
		"take no more; those that there are stay":                        "不再备份；已有的备份保留",
		"snapshot that it is made of, on a host of its region":           "用于创建的快照，主机须在其区域内",
		"It is to take the place of %s, which is there until then":       "它将取代 %s，在此之前后者保持不变",
		"It is being moved or made larger, as %s":                        "它正在移动或扩大，新卷为 %s",
		"Backed up every %d hours, the last %d are kept; next: %s":       "每 %d 小时备份一次，保留最近 %d 个；下一次：%s",
	})
	maps.Copy(words, map[string][2]string{
		"snapshot_copying":   {"copying", "复制中"},
		"snapshot_available": {"available", "可用"},
		"snapshot_failing":   {"failing", "失败，清理中"},
		"snapshot_failed":    {"failed", "失败"},
		"snapshot_deleting":  {"deleting", "删除中"},
		"snapshot_deleted":   {"deleted", "已删除"},
	})
	maps.Copy(zhCodes, map[string]string{
		"snapshot_not_found": "本账户中没有该快照",
		"snapshot_exists":    "已有同名的快照",
		"snapshot_in_use":    "正在用该快照创建存储卷",
		"snapshot_state":     "快照在当前状态下不能这样操作",
		"snapshot_elsewhere": "主机与快照不在同一区域，或一方为模拟主机",
		"quota_snapshots":    "快照数量已达账户上限",
		"volume_moving":      "存储卷正在移动或扩大",
		"volume_copied":      "存储卷已在复制中",
		"volume_too_big":     "存储卷太大，不能复制",
		"invalid_backup":     "备份的间隔或保留数量不可用",
	})
}
