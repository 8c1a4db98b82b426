package main

import "maps"

func init() {
	maps.Copy(zhTexts, map[string]string{
		"Copy a stopped cloud to another database: embedded to PostgreSQL, or back": "把已停止的云复制到另一个数据库：从内嵌数据库到 PostgreSQL，或反向",
		"Every table is copied from one snapshot in one transaction, and read again and compared; the books are proven on both sides. The target must be empty, and gets all or nothing. The source is kept. Keys and images stay in the data folder.": "所有表取自同一快照，在一个事务中复制，并重新读出比对；两边的账目都会核验。目标必须为空，要么得到全部，要么什么也没有。来源保持不变。密钥和镜像仍在数据目录中。",
		"give --to, the address of the empty database, such as postgres://user@host/suanli": "请用 --to 给出空数据库的地址，例如 postgres://user@host/suanli",
		"--from and --to are the same database":                                             "--from 与 --to 是同一个数据库",
		"copying table %d of %d: %s":                                                        "正在复制第 %d 个表（共 %d 个）：%s",
		"%d rows of %d tables are copied and compared, and %d transfers proven on both sides. Set database to the new address and start the cloud; the source is as it was.": "已复制并比对 %d 行（%d 个表），两边核验了 %d 笔转账。请把 database 设为新地址并启动云；来源保持原样。",
		"address of the cloud's database (default: that of the configuration)":                                                                                               "云的数据库地址（默认取自配置）",
		"address of an empty database": "空数据库的地址",
	})
	maps.Copy(zhCodes, map[string]string{
		"target_not_empty": "目标数据库不为空",
		"no_store":         "没有可以复制的云",
		"books_wrong":      "来源的账目不成立，请先核验并更正",
		"cloud_runs":       "该数据库上正有控制面在运行，请先停止",
	})
}
