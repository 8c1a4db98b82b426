package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Try an outage on one's own cloud, and see what leases feel (operator)": "在自己的云上演练一次故障，查看租约受到的影响（运营方）",
		"Cut a host off for a while, as if its machine had gone":                "在一段时间内切断一台主机，如同其机器消失",
		"host to cut off":                         "要切断的主机",
		"Cut all hosts of a zone off for a while": "在一段时间内切断一个可用区的所有主机",
		"zone to cut off, as REGION/ZONE":         "要切断的可用区，格式为 地域/可用区",
		"Show what leases felt of a drill":        "显示租约在演练中受到的影响",
		"End a drill now":                         "立即结束演练",
		"The control plane refuses the hosts for that time, and takes them back at its end by itself, whatever becomes of this command. Instances run on; renters cannot enter them meanwhile. What is not charged and what counts against availability is as in a real outage.": "控制面在此期间拒绝这些主机，到时自动恢复，无论此命令是否仍在运行。实例继续运行，期间租户无法进入。不计费的部分和可用性的计算与真实故障相同。",
		"give --host; suanli host list shows them": "请用 --host 指明主机；suanli host list 会列出",
		"give --zone as REGION/ZONE":               "请用 --zone 指明可用区，格式为 地域/可用区",
		"Type yes to begin: ":                      "输入 yes 开始：",
		"how long, from 5s to 15m":                 "时长，5s 到 15m",
		"begin without asking":                     "不询问直接开始",
		"do not wait for its end":                  "不等待结束",
		"BEFORE":                                   "之前",
		"NOW":                                      "现在",
		"UNREACHABLE":                              "失联时长",
		"ENDED":                                    "已结束",
		"Drill %s runs until %s; end it with: suanli drill stop %s":                "演练 %s 进行到 %s；要提前结束：suanli drill stop %s",
		"Drill %s is over, and some leases are not back yet: suanli drill show %s": "演练 %s 已结束，部分租约尚未恢复：suanli drill show %s",
		"Drill %s is over: of %d leases %d ended, and all others are back.":        "演练 %s 已结束：%d 个租约中有 %d 个结束，其余均已恢复。",
	})
	maps.Copy(zhCodes, map[string]string{
		"bad_drill":       "演练的参数不正确",
		"drill_consent":   "演练会影响租约，须先同意",
		"drill_runs":      "已有演练在进行",
		"drill_nothing":   "没有这样的主机",
		"drill_not_found": "没有该演练",
		"drill_cut":       "该主机因演练被切断，稍后自动恢复",
	})
}
