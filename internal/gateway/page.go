package gateway

import (
	"encoding/json"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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

// text is what a page says, in English and Chinese.
type text [2]string

// explanation is a page for one code.
type explanation struct {
	title text
	// message is for readers of Chinese; in English the fault's own is shown,
	// which says more: faults are not translated.
	message string
	hint    text
	// passes: it is worth trying again by itself, as the program may be starting.
	passes bool
}

var (
	needsToken = text{"Open the address that the console or the suanli command gave you; it carries the token.", "请使用控制台或 suanli 命令给出的完整地址，其中带有访问令牌。"}
	askAgain   = text{"The lease's owner makes links with suanli url.", "租约的所有者可用 suanli url 生成链接。"}
	waits      = text{"This page tries again every five seconds.", "本页每五秒自动重试。"}
)

// explanations are by the fault's code.
var explanations = map[string]explanation{
	"token_needed":              {title: text{"A link with a token is needed", "需要带访问令牌的链接"}, message: "此地址需要该租约端口的访问令牌。", hint: needsToken},
	"token_expired":             {title: text{"This link has ended", "链接已过期"}, message: "此链接已超过有效期。", hint: askAgain},
	"token_other_port":          {title: text{"This link is for another port", "链接属于其他端口"}, message: "此链接只能打开该实例的另一个端口。", hint: askAgain},
	"port_not_served":           {title: text{"This port is not served", "端口未开放"}, message: "该租约没有开放此端口。", hint: text{"Ports are chosen when a lease is made; suanli port-forward reaches any other.", "端口在创建租约时选定；其他端口可用 suanli port-forward 访问。"}},
	"no_such_port":              {title: text{"This is no address of an instance", "这不是实例的地址"}, message: "此地址不对应任何实例的端口。"},
	"lease_state":               {title: text{"The instance is not running", "实例未在运行"}, message: "实例当前未在运行。", hint: text{"Its owner starts it with suanli start.", "所有者可用 suanli start 启动它。"}},
	"not_running":               {title: text{"The instance is not running", "实例未在运行"}, message: "实例当前未在运行，可能正在启动。", hint: waits, passes: true},
	"no_such_lease":             {title: text{"The instance is not there yet", "实例尚未就绪"}, message: "主机上还没有这个实例。", hint: waits, passes: true},
	"port_closed":               {title: text{"Nothing listens on this port yet", "端口上还没有程序"}, message: "实例内尚无程序监听此端口，可能仍在启动。", hint: waits, passes: true},
	"host_offline":              {title: text{"The host is not connected", "主机未连接"}, message: "该实例所在主机目前没有连接；恢复连接后即可访问。", hint: waits, passes: true},
	"bad_answer":                {title: text{"The program gave no proper answer", "程序没有正确响应"}, message: "实例内的程序没有以 HTTP 正确响应，或在中途停止。"},
	"control_plane_unreachable": {title: text{"The cloud is not reached", "无法连接控制面"}, message: "此网关暂时无法连接控制面。", hint: waits, passes: true},
}

// otherwise is for codes without an explanation, by status.
var otherwise = map[int]text{
	http.StatusUnauthorized:        {"A link with a token is needed", "需要带访问令牌的链接"},
	http.StatusForbidden:           {"Not allowed", "没有权限"},
	http.StatusNotFound:            {"Nothing here", "这里没有内容"},
	http.StatusConflict:            {"The instance is not running", "实例未在运行"},
	http.StatusGone:                {"The instance has ended", "实例已结束"},
	http.StatusBadGateway:          {"The instance does not answer", "实例没有响应"},
	http.StatusInternalServerError: {"The gateway failed", "网关出错"},
}

// retrySeconds is how often a page about something that passes is tried again.
const retrySeconds = 5

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">{{if .Retry}}<meta http-equiv="refresh" content="{{.Retry}}">{{end}}
<title>{{.Title}}</title><style>
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5b6478;--page:#f4f5f8;--card:#fff;--line:#dfe3ea}
@media(prefers-color-scheme:dark){:root{--ink:#e3e8f2;--soft:#9aa5ba;--page:#0f1218;--card:#181c25;--line:#2a303d}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1rem;font:16px/1.6 system-ui,-apple-system,"Segoe UI","PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;color:var(--ink);background:var(--page)}
main{width:100%;max-width:34rem;padding:2rem;background:var(--card);border:1px solid var(--line);border-radius:12px;overflow-wrap:anywhere}
h1{margin:0 0 .75rem;font-size:1.35rem;line-height:1.3}p{margin:0 0 .75rem}.soft{color:var(--soft)}
footer{margin-top:1.5rem;padding-top:.75rem;border-top:1px solid var(--line);color:var(--soft);font:13px/1.5 ui-monospace,Menlo,Consolas,monospace}
@media(max-width:30rem){main{padding:1.25rem}}
</style></head><body><main><h1>{{.Title}}</h1><p>{{.Message}}</p>{{if .Hint}}<p class="soft">{{.Hint}}</p>{{end}}<footer>{{.Status}} {{.Code}}</footer></main></body></html>
`))

// view is what a page shows.
type view struct {
	Lang, Title, Message, Hint, Code string
	Status, Retry                    int
}

// explainPage makes the page of a fault.
func explainPage(f *fault.Error, status int, chinese, again bool) view {
	v := view{Lang: "en", Message: sentence(f.Message), Code: f.Code, Status: status}
	language := 0
	e, known := explanations[f.Code]
	if !known {
		e.title = otherwise[status]
	}
	if chinese {
		language, v.Lang = 1, "zh-CN"
		if e.message != "" {
			v.Message = e.message
		}
	}
	v.Title, v.Hint = e.title[language], e.hint[language]
	if v.Title == "" {
		v.Title = http.StatusText(status)
	}
	if e.passes && again {
		v.Retry = retrySeconds
	} else if e.passes {
		v.Hint = ""
	}
	return v
}

// sentence makes a fault's message one: faults begin small and end without a stop.
func sentence(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	s = string(unicode.ToUpper(r)) + s[n:]
	if !strings.ContainsAny(s[len(s)-1:], ".!?)") {
		s += "."
	}
	return s
}

// prefersChinese reads Accept-Language: the first language of ours that it names.
func prefersChinese(header string) bool {
	for tag := range strings.SplitSeq(strings.ToLower(header), ",") {
		tag, _, _ = strings.Cut(strings.TrimSpace(tag), ";")
		language, _, _ := strings.Cut(tag, "-")
		switch language {
		case "zh":
			return true
		case "en":
			return false
		}
	}
	return false
}

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
	if explanations[f.Code].passes {
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "code": f.Code, "detail": f.Message})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Accept, Accept-Language")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(status)
	// A form that was sent is not sent again by the page itself.
	again := r.Method == http.MethodGet
	_ = page.Execute(w, explainPage(f, status, prefersChinese(r.Header.Get("Accept-Language")), again)) // the visitor may be gone
}
