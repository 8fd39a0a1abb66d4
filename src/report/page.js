for (const slider of document.querySelectorAll('input')) {
  slider.addEventListener('input', () => slider.previousElementSibling.style.setProperty('--at', `${slider.value}%`));
}
