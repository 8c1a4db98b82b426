// Package pdf writes plain documents as PDF 1.4: text in columns, lines, pages.
//
// Western text is in Helvetica and figures in Courier, which every reader has.
// Chinese text is in STSong-Light with the encoding UniGB-UCS2-H, one of the fonts
// that the format names for its readers to supply ("Predefined CMaps", ISO 32000-1,
// 9.7.5.2), so a document carries no font of megabytes and neither does the binary.
// The libraries that write PDF in Go embed fonts and know none of these.
//
// Documents have no dates or identifiers of their own: the same content is the
// same bytes. It imports nothing of suanli.
package pdf
