/* global document, getComputedStyle */
// Visible text with less contrast than WCAG 2.2 AA requires (4.5 to 1); the value of this script is their list.
;(() => {
  const channel = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  const luminance = colour => {
    const [r, g, b] = colour.map(value => channel(value / 255))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const parse = text => text.match(/[\d.]+/g).map(Number)
  const backgroundOf = element => {
    if (element === null) return [255, 255, 255]
    const colour = parse(getComputedStyle(element).backgroundColor)
    return colour[3] === 0 ? backgroundOf(element.parentElement) : colour.slice(0, 3)
  }
  const contrast = element => {
    const [light, dark] = [parse(getComputedStyle(element).color).slice(0, 3), backgroundOf(element)]
      .map(luminance).sort((a, b) => b - a)
    return (light + 0.05) / (dark + 0.05)
  }
  const hasText = element => [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim() !== '')
  return [...document.querySelectorAll('body *')]
    .filter(element => hasText(element) && element.offsetParent !== null && !element.matches(':disabled, :disabled *'))
    .filter(element => contrast(element) < 4.5)
    .map(element => `${element.tagName}.${element.className}: ${element.textContent.slice(0, 40)}`)
})()
