package main

import (
	"errors"
	"fmt"

	"suanli.dev/api"
	"suanli.dev/internal/config"
	"suanli.dev/internal/fault"
)

// explained is an error as people of the language chosen read it. The cloud and
// its services word their errors in English; their codes do not change, so in
// Chinese the code's meaning goes before the English detail, which has the values.
func explained(err error) string {
	if !chinese {
		return err.Error()
	}
	if note, ok := errors.AsType[*config.Note](err); ok && note != nil {
		return config.InChinese(err)
	}
	code := ""
	var refused *api.Error
	if errors.As(err, &refused) {
		code = refused.Code
	} else if f, ok := fault.As(err); ok {
		code = f.Code
	}
	zh, ok := zhCodes[code]
	if !ok {
		return err.Error()
	}
	return fmt.Sprintf("%s（%s）：%s", zh, code, err)
}
