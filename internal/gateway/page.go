package gateway

import (
	"encoding/json"
	"html/template"
	"net/http"
	"strings"

	"suanli.dev/internal/fault"
)

var statuses = map[fault.Kind]int{
	fault.Invalid:      http.StatusUnprocessableEntity,
	fault.Unauthorized: http.StatusUnauthorized,
	fault.Forbidden:    http.StatusForbidden,
	fault.NotFound:     http.StatusNotFound,
	fault.Conflict:     http.StatusConflict,
	fault.Gone:         http.StatusGone,
	fault.Payment:      http.StatusPaymentRequired,
	fault.TooMany:      http.StatusTooManyRequests,
	fault.Unavailable:  http.StatusBadGateway,
}

// titles are the headings of the pages, in English and Chinese.
var titles = map[int][2]string{
	http.StatusUnauthorized:        {"A token is needed", "需要访问令牌"},
	http.StatusForbidden:           {"Not allowed", "没有权限"},
	http.StatusNotFound:            {"Nothing here", "这里没有内容"},
	http.StatusConflict:            {"The instance is not running", "实例未在运行"},
	http.StatusGone:                {"The instance has ended", "实例已结束"},
	http.StatusBadGateway:          {"The instance does not answer", "实例没有响应"},
	http.StatusInternalServerError: {"The gateway failed", "网关出错"},
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:18vh auto;padding:0 1.5rem;color:#1c2330;background:#fbfbfd}
h1{font-size:1.4rem}code{color:#68718a}@media(prefers-color-scheme:dark){body{color:#dde3ee;background:#12151c}}
</style></head><body><h1>{{.Title}}</h1><p>{{.Message}}</p>{{if .Hint}}<p>{{.Hint}}</p>{{end}}<p><code>{{.Status}} {{.Code}}</code></p></body></html>
`))

// showFault answers with a page for people and a problem document for programs.
func showFault(w http.ResponseWriter, r *http.Request, err error) {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Internal, "internal", "the request could not be handled; the gateway's log says why")
	}
	status, ok := statuses[f.Kind]
	if !ok {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "code": f.Code, "detail": f.Message})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.WriteHeader(status)
	view := struct {
		Lang, Title, Message, Hint, Code string
		Status                           int
	}{Lang: "en", Title: http.StatusText(status), Message: f.Message, Code: f.Code, Status: status}
	language := 0
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Accept-Language")), "zh") {
		language, view.Lang = 1, "zh"
	}
	if t, ok := titles[status]; ok {
		view.Title = t[language]
	}
	if status == http.StatusUnauthorized {
		view.Hint = [2]string{
			"Open the address that the console or the suanli command gave you; it carries the token.",
			"请使用控制台或 suanli 命令给出的完整地址，其中带有访问令牌。",
		}[language]
	}
	_ = page.Execute(w, view) // the visitor may be gone
}
