package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"cloud to join first, if this machine has not joined one: host:port":              "本机尚未加入任何云时，先加入此云：host:port",
		"file with the one-time token of --join":                                          "存放 --join 所需一次性令牌的文件",
		"--join needs --token-file; the cloud makes a token with suanli host token":       "--join 需要 --token-file；令牌由云用 suanli host token 生成",
		"give --kubernetes-image: instances in a cluster get their first process from it": "请给出 --kubernetes-image：集群中的实例由该镜像得到首个进程",
		"a cluster has no direct ports: leave direct_ports empty":                         "集群没有直连端口：请将 direct_ports 留空",
	})
}
