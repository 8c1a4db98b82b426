package main

// zhTexts has the Simplified Chinese of every text, by its English.
var zhTexts = map[string]string{}
